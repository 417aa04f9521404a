"""What every place for blobs does: whole blobs, which stay as they are, and of which none is lost once it was put."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headwater.engine.blobs import Blobs
from headwater.errors import BlobMissing
from tests.contract.blobs.places import Place


def content(blobs: Blobs, name: str) -> bytes:
    with blobs.open(name) as blob:
        return bytes(blob.read(0, blob.size))


def names(blobs: Blobs) -> set[str]:
    return {blob.name for blob in blobs.list()}


class Died(BaseException):
    """The process is gone."""


def dying() -> Iterator[bytes]:
    yield b"begun"
    raise Died


def test_parts_become_one_blob(place: Place) -> None:
    place.open().put("a.runs", [b"one", memoryview(b"two"), pa.py_buffer(b"three")])
    assert content(place.open(), "a.runs") == b"onetwothree"


def test_parts_are_taken_when_they_are_due(blobs: Blobs) -> None:
    blobs.put("rows", (bytes([number]) * 3 for number in range(4)), durable=False)
    assert content(blobs, "rows") == b"\0\0\0\1\1\1\2\2\2\3\3\3"


def test_a_blob_may_be_empty(blobs: Blobs) -> None:
    blobs.put("empty", [])
    assert (content(blobs, "empty"), blobs.size("empty")) == (b"", 0)


def test_a_piece_is_read_or_viewed(blobs: Blobs) -> None:
    blobs.put("a", [bytes(range(256)) * 64])
    with blobs.open("a") as blob:
        assert blob.size == 256 * 64
        for given in (blob.read(250, 10), blob.view(250, 10)):
            assert bytes(given) == bytes([250, 251, 252, 253, 254, 255, 0, 1, 2, 3])


def test_a_read_ends_where_the_blob_does(blobs: Blobs) -> None:
    blobs.put("a", [b"12345"])
    with blobs.open("a") as blob:
        assert (bytes(blob.read(3, 10)), bytes(blob.read(9, 1))) == (b"45", b"")


def test_what_was_read_outlives_the_blob(blobs: Blobs) -> None:
    blobs.put("a", [b"x" * 10_000])
    with blobs.open("a") as blob:
        read, view = blob.read(0, 10_000), blob.view(0, 10_000)
    blobs.delete("a")
    assert bytes(read) == bytes(view) == b"x" * 10_000


def test_a_reader_that_has_a_blob_open_keeps_it(place: Place) -> None:
    place.open().put("a", [b"12345"])
    with place.open().open("a") as blob:
        place.open().delete("a")
        assert bytes(blob.read(0, 5)) == b"12345"


def test_a_missing_blob_is_named(blobs: Blobs) -> None:
    assert blobs.size("gone") is None
    with pytest.raises(BlobMissing, match="gone") as caught, blobs.open("gone"):
        pass
    assert caught.value.name == "gone"


def test_all_blobs_are_listed(blobs: Blobs) -> None:
    before = time.time_ns() // 1000
    blobs.put("a", [b"12345"])
    blobs.put("b", [b""], durable=False)
    found = {blob.name: blob for blob in blobs.list()}
    assert {name: blob.size for name, blob in found.items()} == {"a": 5, "b": 0}
    # Clocks of files may be coarse.
    assert all(before - 1_000_000 <= blob.written_at <= time.time_ns() // 1000 + 1_000_000 for blob in found.values())


def test_deleting_is_final_and_may_be_repeated(place: Place) -> None:
    blobs = place.open()
    blobs.put("a", [b"1"])
    blobs.put("b", [b"2"])
    blobs.delete("a")
    blobs.delete("a")
    assert names(place.open()) == {"b"}


def test_what_was_put_outlives_a_power_cut(place: Place) -> None:
    blobs = place.open()
    blobs.put("a", [b"1" * 5000, b"2" * 5000])
    blobs.put("b", [b"3"])
    after = place.after_a_power_cut()
    assert content(after, "a") == b"1" * 5000 + b"2" * 5000
    assert content(after, "b") == b"3"


def test_a_put_that_dies_leaves_the_others_alone_and_can_be_cleared(place: Place) -> None:
    blobs = place.open()
    blobs.put("a", [b"12345"])
    with pytest.raises(Died):
        blobs.put("b", dying())
    other = place.open()
    assert content(other, "a") == b"12345"
    assert names(other) - {"b"} == {"a"}
    other.delete("b")
    assert names(other) == {"a"}


def test_another_process_opens_the_place_by_its_address(place: Place) -> None:
    assert place.open().address == place.open().address
    assert isinstance(place.open().address, str)


def test_what_was_removed_can_be_let_go_of(place: Place) -> None:
    blobs = place.open()
    blobs.put("a", [b"1"])
    blobs.put("b", [b"2"])
    blobs.delete("a")
    assert blobs.dropped(["a", "b", "never there"]) == {"a", "never there"}
