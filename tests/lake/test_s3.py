"""Tables in S3, over HTTP, with credentials from the environment only."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from headwater.connectors.delta.target import Delta
from headwater.connectors.iceberg.target import Iceberg
from headwater.connectors.lake import target as target_module
from headwater.connectors.lake.target import LakeTarget
from headwater.connectors.parquet.target import Parquet
from headwater.engine.sinks.port import PositionChanged
from headwater.errors import TargetFailed, UsageError
from tests.archives.servers import Line, S3Server
from tests.lake.bringing import Bringer, same
from tests.lake.test_tables import COLUMNS, texts

pytestmark = pytest.mark.timeout(300)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "very-secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    started = S3Server()
    yield started
    started.close()
    os.environ.clear()
    os.environ.update(before)


class Places:
    """A table in the bucket, reached through a line; the catalog of Iceberg is a file of this machine."""

    def __init__(self, kind: str, server: S3Server, directory: Path) -> None:
        self.kind, self.line, self._server, self._directory = kind, Line(server.port), server, directory
        self.prefix = f"{uuid.uuid4().hex[:12]}/{kind}"

    def target(self, **options: Any) -> LakeTarget:
        place = f"s3://bucket/{self.prefix}?endpoint_override={self.line.url}"
        chosen = {"every": 0, **options}
        if self.kind == "iceberg":
            return Iceberg(f"sqlite:///{self._directory}/catalog.db", table="shop.v", warehouse=place, **chosen)
        return Delta(place, **chosen) if self.kind == "delta" else Parquet(place, **chosen)

    def read(self) -> pa.Table:
        """What a stranger reads, past the line."""
        server, place = self._server, f"bucket/{self.prefix}"
        if self.kind == "delta":
            options = {"AWS_ENDPOINT_URL": server.url, "AWS_ALLOW_HTTP": "true"}
            return pa.table(DeltaTable(f"s3://{place}", storage_options=options).scan().read_all())
        if self.kind == "iceberg":
            return self._iceberg()
        listed = json.loads(server.get(f"{self.prefix}/manifest.json"))["files"]
        parts = [pq.read_table(f"{place}/{file}", filesystem=server.system) for file in listed]
        return pa.concat_tables([COLUMNS.empty_table(), *parts])

    def stored(self) -> list[str]:
        found = self._server.keys(self.prefix)
        return [key for key in found if key.endswith(".parquet") and "checkpoint" not in key]

    def _iceberg(self) -> pa.Table:
        options = {"s3.endpoint": self._server.url, "uri": f"sqlite:///{self._directory}/catalog.db"}
        catalog = load_catalog("default", type="sql", **options)
        try:
            return catalog.load_table("shop.v").scan().to_arrow()
        finally:
            catalog.close()


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def places(request: pytest.FixtureRequest, server: S3Server, tmp_path: Path) -> Iterator[Places]:
    made = Places(request.param, server, tmp_path)
    yield made
    made.line.close()


def test_a_table_in_s3_follows_the_view(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "CLEAN_SECONDS", 0)
    brought = Bringer(places.target(retention=0), ["key"])
    rows = texts({})
    for number in range(4):
        rows = texts({key: f"{number * key}" for key in range(number, 20)})
        brought.bring(rows)
        assert same(places.read().cast(COLUMNS), rows)
    assert same(brought.rows(), rows)
    assert Bringer(places.target(), ["key"]).stamp == "stamp 4"
    assert len(places.stored()) <= 2


def test_a_store_that_is_down_is_told_without_secrets(places: Places) -> None:
    brought = Bringer(places.target(), ["key"])
    brought.bring(texts({1: "one"}))
    places.line.switch("closed")
    delivery = brought.delivery(texts({1: "two"}))
    with pytest.raises(TargetFailed) as raised:
        brought.target.deliver(delivery)
    assert raised.value.kind == "passing"
    shown = f"{raised.value} {raised.value.hint} {brought.target!r} {brought.target.address}"
    assert "very-secret" not in shown
    assert "somebody" not in shown
    places.line.switch("open")
    brought.target.deliver(delivery)
    assert same(places.read().cast(COLUMNS), texts({1: "two"}))


def test_an_older_writer_in_s3_changes_nothing(places: Places) -> None:
    old = Bringer(places.target(), ["key"])
    old.bring(texts({1: "one"}))
    new = Bringer(places.target(), ["key"])
    new.held, new.number = texts({1: "one"}), 5
    new.bring(texts({1: "of the new"}))
    with pytest.raises(PositionChanged):
        old.bring(texts({1: "of the old"}))
    assert same(places.read().cast(COLUMNS), texts({1: "of the new"}))


@pytest.mark.parametrize(
    "place", ["s3://somebody:very-secret@bucket/x", "ftp://host/x", "", "s3://bucket/x?password=1"]
)
def test_an_invalid_place_is_refused_without_its_secret(place: str) -> None:
    with pytest.raises(UsageError) as raised:
        Parquet(place)
    assert "very-secret" not in f"{raised.value} {raised.value.hint}"
    assert "archive" not in raised.value.message
