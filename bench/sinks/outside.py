"""The targets that are measured: how each is made, what it does by itself at best, and when a row can be seen in it."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow as pa

from headwater.connectors.opensearch.target import OpenSearch
from headwater.connectors.postgres.target.columns import csv_of
from headwater.connectors.postgres.target.target import Postgres
from headwater.connectors.redis.target import Redis
from headwater.connectors.topics.target import Topic
from headwater.engine.sinks.target import Target
from headwater.errors import UnknownTopic
from headwater.log.opening import open_log
from tests.contract.sinks.redis import Server as RedisServer
from tests.opensearch.server import running
from tests.postgres.servers import Server, chosen_versions

PIECE_ROWS = 10_000
BULK_ROWS = 2000
MARKER = 0
"""The key of the row whose number says how far the target is."""


class Outside(ABC):
    """A system with room for one view with the columns `key` and `text`. `number` tells the rooms apart."""

    name: ClassVar[str]
    floor: ClassVar[str]

    @abstractmethod
    def __init__(self, opened: ExitStack, place: Path) -> None:
        """Starts what has to run, until `opened` is closed."""

    @abstractmethod
    def target(self, number: int) -> Target:
        """What a sink brings rows to."""

    @abstractmethod
    def fill(self, rows: pa.Table) -> float:
        """Seconds that the system takes for the same rows when it is handed what it takes best."""

    @abstractmethod
    def marker(self, number: int) -> str | None:
        """The text of the row `MARKER`, as a reader sees it now."""


class InPostgres(Outside):
    """A server with `fsync`, over a socket."""

    name, floor = "PostgreSQL", "COPY, then the primary key"

    def __init__(self, opened: ExitStack, place: Path) -> None:
        server = Server.create(chosen_versions()[0], place)
        server.start(fsync="on")
        opened.callback(server.stop)
        self._url = server.url()
        self._connection = opened.enter_context(psycopg.connect(self._url, autocommit=True))

    def target(self, number: int) -> Target:
        return Postgres(self._url, table=f"t{number}")

    def fill(self, rows: pa.Table) -> float:
        held = csv_of(rows)
        self._connection.execute("DROP TABLE IF EXISTS floor")
        began = time.perf_counter()
        with self._connection.transaction():
            self._connection.execute("CREATE TABLE floor (key bigint, text text)")
            with self._connection.cursor().copy("COPY floor FROM STDIN (FORMAT csv)") as copy:
                copy.write(held)
            self._connection.execute("ALTER TABLE floor ADD PRIMARY KEY (key)")
        return time.perf_counter() - began

    def marker(self, number: int) -> str | None:
        try:
            query = f"SELECT text FROM t{number} WHERE key = {MARKER}"
            found = self._connection.execute(query.encode()).fetchone()
        except psycopg.errors.UndefinedTable:
            return None
        return None if found is None else str(found[0])


class InRedis(Outside):
    """A server that syncs every write."""

    name, floor = "Redis", "pipelines of 10,000 SET"

    def __init__(self, opened: ExitStack, place: Path) -> None:
        server = RedisServer()
        opened.callback(server.close)
        self._url, self._client = server.url, opened.enter_context(server.connect())

    def target(self, number: int) -> Target:
        return Redis(self._url, prefix=f"t{number}:")

    def fill(self, rows: pa.Table) -> float:
        held = [(f"floor:{row['key']}", json.dumps(row)) for row in rows.to_pylist()]
        began = time.perf_counter()
        for first in range(0, len(held), PIECE_ROWS):
            with self._client.pipeline(transaction=False) as pipeline:
                for key, value in held[first : first + PIECE_ROWS]:
                    pipeline.set(key, value)
                pipeline.execute()
        return time.perf_counter() - began

    def marker(self, number: int) -> str | None:
        found: Any = self._client.get(f"t{number}:{MARKER}")
        return None if found is None else str(json.loads(found)["text"])


class InOpenSearch(Outside):
    """One node on this machine, with a heap of 384 MB."""

    name, floor = "OpenSearch", "_bulk of 2,000, then a refresh"

    def __init__(self, opened: ExitStack, place: Path) -> None:
        server = opened.enter_context(running())
        self._url = server.url
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        opened.callback(self._connection.close)

    def target(self, number: int) -> Target:
        return OpenSearch(self._url, index=f"t{number}")

    def fill(self, rows: pa.Table) -> float:
        self._ask("DELETE", "/floor")
        properties = {"key": {"type": "long"}, "text": {"type": "text", "fields": {"keyword": {"type": "keyword"}}}}
        self._ask("PUT", "/floor", json.dumps({"mappings": {"dynamic": False, "properties": properties}}))
        held = [
            "".join(f'{{"index":{{"_id":"{row["key"]}"}}}}\n{json.dumps(row)}\n' for row in part.to_pylist())
            for part in _pieces(rows, BULK_ROWS)
        ]
        began = time.perf_counter()
        for each in held:
            assert not self._ask("POST", "/floor/_bulk", each)["errors"]
        self._ask("POST", "/floor/_refresh")
        return time.perf_counter() - began

    def marker(self, number: int) -> str | None:
        found = self._ask("GET", f"/t{number}/_search?q=key:{MARKER}")
        hits = found.get("hits", {}).get("hits", [])
        return str(hits[0]["_source"]["text"]) if hits else None

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        self._connection.request(method, path, body, {"content-type": "application/x-ndjson"})
        return json.load(self._connection.getresponse())


class InTopic(Outside):
    """A log of its own on the disk that is measured."""

    name, floor = "topic", "append"

    def __init__(self, opened: ExitStack, place: Path) -> None:
        self._place, self._log = place / "other", opened.enter_context(open_log(place / "other"))
        self._followed: dict[int, Iterator[Any]] = {}
        self._newest: str | None = None

    def target(self, number: int) -> Target:
        return Topic(f"t{number}", log=self._place)

    def fill(self, rows: pa.Table) -> float:
        with suppress(UnknownTopic):
            self._log.drop("floor")
        self._log.create("floor", rows.schema, key="key")
        began = time.perf_counter()
        for part in _pieces(rows, PIECE_ROWS):
            self._log.append("floor", part)
        return time.perf_counter() - began

    def marker(self, number: int) -> str | None:
        if number not in self._followed:
            try:
                self._log.topic(f"t{number}")
            except UnknownTopic:
                return None
            self._followed[number] = self._log.read(f"t{number}", follow=True)
            self._newest = None
        for record in self._followed[number]:
            value: Mapping[str, Any] = record.value or {}
            if value.get("key") == MARKER:
                self._newest = value["text"]
                break
        return self._newest


OUTSIDES: dict[str, type[Outside]] = {
    "opensearch": InOpenSearch,
    "postgres": InPostgres,
    "redis": InRedis,
    "topic": InTopic,
}


def room() -> tempfile.TemporaryDirectory[str]:
    """A folder with a short path, as sockets need it."""
    return tempfile.TemporaryDirectory(prefix="hw")


def _pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    return (rows.slice(first, size) for first in range(0, rows.num_rows, size))
