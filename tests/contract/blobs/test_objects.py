"""Blobs in an object store: what is read from afar and what is not, the limit of the cache, a store that is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from headwater.engine.blobs import Blobs
from headwater.engine.objects.blobs import open_objects, parse_objects
from headwater.engine.objects.cache import CACHE_BYTES_MAX, Cache
from headwater.engine.opening import open_blobs
from headwater.errors import BlobMissing, StoreUnavailable, UsageError
from tests.archives.servers import Line, S3Server


@pytest.fixture
def line(s3: S3Server) -> Iterator[Line]:
    made = Line(s3.port)
    yield made
    made.close()


def opened(line: Line, cache: Path, bytes_max: int = CACHE_BYTES_MAX, prefix: str = "shop") -> Blobs:
    where = f"endpoint_override={line.url}&cache={quote(str(cache))}&cache_bytes_max={bytes_max}"
    return open_objects(f"s3://bucket/{prefix}?{where}")


def content(blobs: Blobs, name: str) -> bytes:
    with blobs.open(name) as blob:
        return bytes(blob.view(0, blob.size))


def used(cache: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in cache.glob("*/*")}


def test_what_was_put_or_read_here_is_not_asked_for_again(line: Line, tmp_path: Path) -> None:
    blobs = opened(line, tmp_path / "one")
    blobs.put("a", [b"12345"])
    before = line.requests
    assert content(blobs, "a") == b"12345"
    assert line.requests == before, "it was put here"
    other = opened(line, tmp_path / "two")
    assert content(other, "a") == b"12345"
    assert line.requests > before, "another machine has to ask"
    before = line.requests
    assert content(other, "a") == content(opened(line, tmp_path / "two"), "a") == b"12345"
    assert line.requests == before, "processes of one machine share what they have"


def test_a_store_that_is_away_is_named_and_what_is_here_can_be_read(line: Line, tmp_path: Path) -> None:
    blobs = opened(line, tmp_path / "cache")
    blobs.put("a", [b"12345"])
    line.switch("closed")
    assert content(blobs, "a") == b"12345"
    for act in (
        lambda: blobs.put("b", [b"1"]),
        lambda: content(opened(line, tmp_path / "cold"), "a"),
        lambda: blobs.size("a"),
        lambda: list(blobs.list()),
    ):
        with pytest.raises(StoreUnavailable, match="s3://bucket/shop"):
            act()
    blobs.delete("a")
    line.switch("open")
    assert blobs.size("a") == 5, "it could not be removed, and is still in the list"


def test_a_blob_that_is_missing_is_no_failure_of_the_store(line: Line, tmp_path: Path) -> None:
    with pytest.raises(BlobMissing, match="gone"):
        content(opened(line, tmp_path), "gone")


def test_the_cache_has_a_limit_and_keeps_what_was_used_last(line: Line, tmp_path: Path) -> None:
    blobs = opened(line, tmp_path, 16_000)
    blobs.put("often", [b"o" * 1000])
    for number in range(40):
        blobs.put(f"once-{number:02}", [bytes(1000)])
        assert content(blobs, "often") == b"o" * 1000
        assert sum(used(tmp_path).values()) <= 16_000
    found = used(tmp_path)
    assert "often" in found
    assert {"once-39", "once-38"} < found.keys()
    assert "once-00" not in found
    assert content(blobs, "once-00") == bytes(1000)


def test_a_blob_larger_than_the_cache_can_be_read(line: Line, tmp_path: Path) -> None:
    blobs = opened(line, tmp_path, 100)
    blobs.put("large", [b"x" * 1000, b"y" * 1000])
    assert used(tmp_path) == {}
    with blobs.open("large") as blob:
        assert (bytes(blob.read(999, 2)), bytes(blob.view(1500, 500)), bytes(blob.read(5000, 1))) == (
            b"xy",
            b"y" * 500,
            b"",
        )


def test_a_disk_that_takes_no_more_is_a_smaller_cache(line: Line, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blobs = opened(line, tmp_path / "file")
    blobs.put("a", [b"12345"])
    assert content(blobs, "a") == b"12345"


def test_a_file_that_is_removed_while_it_is_open_can_be_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    cache.add("a", b"12345")
    with cache.opened("a") as blob:
        assert blob is not None
        cache.remove("a")
        assert bytes(blob.view(1, 3)) == b"234"


def test_many_threads_share_a_cache(tmp_path: Path) -> None:
    cache, wrong = Cache(tmp_path, 50_000), []

    def use(seed: int) -> None:
        for number in range(200):
            name = f"{(seed * 7 + number) % 90}"
            with cache.opened(name) as blob:
                if blob is not None and bytes(blob.read(0, blob.size)) != name.encode() * 500:
                    wrong.append(name)
            cache.add(name, name.encode() * 500)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 50_000 * 17 // 16 + 1000


def test_an_address_says_where_the_objects_and_the_cache_are(tmp_path: Path) -> None:
    found = parse_objects(f"s3://bucket/shop?region=eu-central-1&cache={tmp_path}&cache_bytes_max=5000")
    assert (found.url.location, found.url.options) == ("s3://bucket/shop", (("region", "eu-central-1"),))
    assert (found.cache.parent, found.cache_bytes_max) == (tmp_path, 5000)
    assert parse_objects("s3://bucket/shop").cache_bytes_max == CACHE_BYTES_MAX
    assert parse_objects("s3://bucket/shop").cache != parse_objects("s3://bucket/other").cache
    for wrong in ("s3://", "s3://bucket?cache_bytes_max=much", "s3://bucket?nosuch=1", "s3://key:secret@bucket/shop"):
        with pytest.raises(UsageError) as caught:
            open_blobs(wrong)
        assert "archive" not in caught.value.message
        assert "secret" not in str(caught.value)
