"""The cache of pieces of objects: what is in it is not fetched again, and it stays as small as it may be."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headwater.log.embedded.cache import FOLDER, LEFT_OVER_SECONDS, PieceCache


def never() -> bytes:
    raise AssertionError("it is in the cache")


def size(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in (directory / FOLDER).iterdir())


def test_a_piece_is_fetched_once(tmp_path: Path) -> None:
    cache = PieceCache(tmp_path)
    assert cache.get("s3://a/b", 0, 3, lambda: b"abc") == b"abc"
    assert cache.get("s3://a/b", 0, 3, never) == b"abc"
    assert PieceCache(tmp_path).get("s3://a/b", 0, 3, never) == b"abc"
    assert cache.get("s3://a/b", 0, 4, lambda: b"abcd") == b"abcd"
    assert cache.get("s3://a/c", 0, 3, lambda: b"xyz") == b"xyz"
    assert cache.get("s3://a/b", 0, 3, lambda: b"new", fresh=True) == b"new"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = PieceCache(tmp_path, bytes_max=10 * 4096)
    for number in range(10):
        cache.get("s3://a/b", number, number + 1, lambda: bytes(4096))
        used_at = time.time() - 100 + number
        os.utime(next(path for path in (tmp_path / FOLDER).glob(f"*-{number}-*")), (used_at, used_at))
    cache.get("s3://a/b", 0, 1, never)
    for number in range(10, 15):
        cache.get("s3://a/b", number, number + 1, lambda: bytes(4096))
    assert size(tmp_path) <= 10 * 4096
    cache.get("s3://a/b", 0, 1, never)
    assert cache.get("s3://a/b", 1, 2, lambda: b"gone") == b"gone"


def test_what_a_killed_process_left_behind_goes(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    left = tmp_path / FOLDER / "piece-0-1.0123abcd"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 2 * LEFT_OVER_SECONDS,) * 2)
    begun = tmp_path / FOLDER / "piece-0-1.4567abcd"
    begun.write_bytes(b"half")
    PieceCache(tmp_path).get("s3://a/b", 0, 3, lambda: b"abc")
    assert not left.exists()
    assert begun.exists()


def test_many_use_it_at_once(tmp_path: Path) -> None:
    def use(seed: int) -> None:
        cache = PieceCache(tmp_path, bytes_max=20_000)
        for number in range(200):
            place = number * (seed + 3) % 17
            content = bytes([place]) * 4096
            assert cache.get("s3://a/b", place, place + 4096, lambda content=content: content) == content  # type: ignore[misc]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert size(tmp_path) <= 20_000 + 4 * 4096
