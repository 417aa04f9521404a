"""Where the store and the state of a pipeline are: noted once, found by whatever opens the pipeline's directory."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import headwater as hw
from headwater.engine.opening import check_address, open_store
from headwater.engine.reading import Reader
from headwater.engine.whereabouts import FILE, found_elsewhere, settle
from headwater.errors import UsageError
from headwater.log.port import Log
from tests.unit.engine.samples import Driver, zset

STORE = "postgresql://shop:very-secret@db/views?sslmode=require"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    with hw.open(tmp_path / "log") as log:
        return log


def settled(directory: Path, log: Log, store: str | None = STORE, state: str | Path | None = "s3://bucket/x") -> str:
    settle(directory, "shop", log, store, state, check_address)
    found = found_elsewhere(directory)
    assert found is not None
    return found


def test_an_address_has_everything_in_it(tmp_path: Path, log: Log) -> None:
    address = settled(tmp_path / "shop", log)
    query = parse_qs(urlsplit(address).query)
    (schema,), (state,) = query["schema"], query["state"]
    assert address.startswith("postgresql://shop:very-secret@db/views?sslmode=require&")
    assert schema.startswith("headwater_shop_")
    assert state == f"s3://bucket/x/{schema}"


def test_it_stays_the_same_for_the_same_application(tmp_path: Path, log: Log) -> None:
    first = settled(tmp_path / "shop", log)
    assert settled(tmp_path / "shop", log) == first
    assert settled(tmp_path / "shop", log, state="s3://bucket/y") != first


def test_processes_that_begin_at_once_agree(tmp_path: Path, log: Log) -> None:
    found: list[str] = []

    def check(address: str) -> None:
        if not found:
            # The other process, at the worst moment: both have seen that nothing is noted.
            found.append(address)
            settle(tmp_path / "shop", "shop", log, STORE, None, check)

    settle(tmp_path / "shop", "shop", log, STORE, None, check)
    noted = found_elsewhere(tmp_path / "shop")
    assert noted != found[0], "the first to write it counts"
    settle(tmp_path / "shop", "shop", log, STORE, None, check_address)
    assert found_elsewhere(tmp_path / "shop") == noted


def test_another_log_never_finds_it(tmp_path: Path, log: Log) -> None:
    assert settled(tmp_path / "one" / "shop", log) != settled(tmp_path / "two" / "shop", log)


def test_a_log_of_several_machines_is_found_by_all_of_them(tmp_path: Path) -> None:
    class Kafka:
        url, identity = "kafka://broker:9092/shop", "a topic's id"

    kafka: Log = Kafka()  # type: ignore[assignment]
    one, two = (settled(tmp_path / name / "shop", kafka) for name in ("one", "two"))
    assert one == two
    Kafka.identity = "the id of one that was made later"
    assert settled(tmp_path / "three" / "shop", kafka) != one


def test_the_file_is_for_its_owner_only(tmp_path: Path, log: Log) -> None:
    settled(tmp_path / "shop", log)
    assert stat.S_IMODE((tmp_path / "shop" / FILE).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "shop").iterdir()] == [FILE]


def test_a_schema_of_ones_own_is_kept(tmp_path: Path, log: Log) -> None:
    address = settled(tmp_path / "shop", log, store="postgresql://db/views?schema=shop", state=None)
    query = parse_qs(urlsplit(address).query)
    assert (query["schema"], query["state"]) == (["shop"], [str(tmp_path / "shop" / "runs")])


def test_an_application_that_was_elsewhere_does_not_begin_here(tmp_path: Path, log: Log) -> None:
    settle(tmp_path / "shop", "shop", log, None, None, check_address)
    assert not (tmp_path / "shop").exists()
    settled(tmp_path / "shop", log)
    with pytest.raises(UsageError, match="another store") as caught:
        settle(tmp_path / "shop", "shop", log, None, None, check_address)
    assert "secret" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("store", "state"),
    [
        ("mysql://db/views", None), ("/some/path", None), ("postgresql://db/views?nosuch=1", None),
        (STORE, "gs://bucket/x"), (STORE, "s3://"), (None, "s3://bucket?cache_bytes_max=much"),
        (f"postgresql://db/views?schema={'x' * 64}", None),
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_and_not_noted(
    tmp_path: Path, log: Log, store: str | None, state: str | None
) -> None:
    with pytest.raises(UsageError):
        settle(tmp_path / "shop", "shop", log, store, state, check_address)
    assert not (tmp_path / "shop").exists()


def test_a_damaged_file_is_named(tmp_path: Path, log: Log) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(UsageError, match=FILE):
        open_store(tmp_path)


def test_files_alone_can_be_elsewhere(tmp_path: Path, log: Log) -> None:
    address = settled(tmp_path / "shop", log, store=None, state=tmp_path / "shared disk")
    driver = Driver(tmp_path / "shop")
    driver.publish({"v": zset((1, 1, "a", 1))})
    assert driver.store.address == address
    assert driver.store.blobs.address.startswith(str(tmp_path / "shared disk" / "headwater_shop_"))
    driver.close()
    for known_as in (tmp_path / "shop", address):
        with Reader(known_as) as reader:
            assert reader.read(["v"]).tables["v"]["key"].to_pylist() == [1]
    assert not (tmp_path / "shop" / "runs").exists()
    assert json.loads((tmp_path / "shop" / FILE).read_text())["state"] == str(tmp_path / "shared disk")
