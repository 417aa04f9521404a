"""The targets that are tortured: how each is reached through a proxy, killed, started again and looked at."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import redis

from headwater.errors import UnknownTopic
from headwater.log.opening import open_log
from headwater.testing.proxy import Server
from tests.contract.sinks.opensearch import INDEX, OpenSearchSystem
from tests.contract.sinks.opensearch import server as opensearch
from tests.contract.sinks.redis import Server as RedisServer
from tests.postgres import servers
from tests.sinks.story import Rows

PREFIX = "out:"
RUNNER, TARGET, BOTH, CUT, DROP, DELAY, REPEAT = "runner", "target", "both", "cut", "drop", "delay", "repeat"
NETWORK = (CUT, DROP, DELAY)
_ALL_KEYS = """
local held = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    held[#held + 1] = key
    held[#held + 1] = redis.call('HGET', key, 'text')
end
return held
"""


class Victim(ABC):
    """A target in a system of its own, empty at first. A new kind of target adds a class, and its name below."""

    kind: ClassVar[str]
    """Its name in `hw.sinks`."""
    transactional: ClassVar[bool] = True
    """Whether everything that it ever shows is a version of the view."""
    faults: ClassVar[tuple[str, ...]] = (RUNNER, TARGET, BOTH, *NETWORK)
    limits: ClassVar[dict[str, int]] = {}
    """Constants of modules, for small data."""

    @property
    def server(self) -> Server | None:
        """What a proxy can stand in front of."""
        return None

    @abstractmethod
    def arguments(self, port: int) -> dict[str, Any]:
        """What a target is made of, in a process of its own; the proxy is at this port of this machine."""

    @abstractmethod
    def shown(self) -> Rows | None:
        """The rows that it shows at one moment; None if it does not answer now."""

    @abstractmethod
    def kill(self) -> None:
        """Ends its server as a power cut would."""

    @abstractmethod
    def start(self) -> None:
        """Starts its server again."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back."""


class PostgresVictim(Victim):
    """A database of a server of its own, without the table."""

    kind = "Postgres"

    def __init__(self, version: str = "18") -> None:
        self._place = tempfile.TemporaryDirectory(prefix="hw")
        self._server = servers.Server.create(version, Path(self._place.name))
        self._server.start()

    @property
    def server(self) -> Server:
        return self._server.data / ".s.PGSQL.5432"

    def arguments(self, port: int) -> dict[str, Any]:
        return {"url": f"postgresql://postgres@127.0.0.1:{port}/postgres", "table": "texts"}

    def shown(self) -> Rows | None:
        try:
            with self._server.connect() as connection:
                return {int(key): str(text) for key, text in connection.execute("SELECT key, text FROM texts")}
        except psycopg.errors.UndefinedTable:
            return {}
        except psycopg.OperationalError:
            return None

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        with suppress(FileNotFoundError):
            self._server.kill()
        self._place.cleanup()


class RedisVictim(Victim):
    """A server of its own; rows are hashes."""

    kind = "Redis"

    def __init__(self) -> None:
        self._server = RedisServer()

    @property
    def server(self) -> Server:
        return ("127.0.0.1", self._server.port)

    def arguments(self, port: int) -> dict[str, Any]:
        return {"url": f"redis://127.0.0.1:{port}/0", "prefix": PREFIX, "format": "hash"}

    def shown(self) -> Rows | None:
        try:
            with self._server.connect() as client:
                found: Any = client.eval(_ALL_KEYS, 0, f"{PREFIX}*")
        except redis.RedisError:
            return None
        return {
            int(key.decode().removeprefix(PREFIX)): text.decode()
            for key, text in zip(found[::2], found[1::2], strict=True)
        }

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()


class RedisPartsVictim(RedisVictim):
    """The same with scripts of a few rows, so that a delivery takes several, as a large one does."""

    transactional = False
    limits: ClassVar[dict[str, int]] = {"headwater.connectors.redis.target.SCRIPT_ROWS_MAX": 16}


class OpenSearchVictim(Victim):
    """An index of the one server of this process."""

    kind = "OpenSearch"
    transactional = False
    faults = (RUNNER, TARGET, BOTH, *NETWORK, REPEAT)
    limits: ClassVar[dict[str, int]] = {"headwater.connectors.opensearch.documents.BULK_ROWS_MAX": 16}

    def __init__(self) -> None:
        self._system = OpenSearchSystem()

    @property
    def server(self) -> Server:
        return ("127.0.0.1", opensearch().port)

    def arguments(self, port: int) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{port}", "index": INDEX}

    def shown(self) -> Rows | None:
        try:
            return self._system.rows()
        except (OSError, AssertionError):
            return None

    def kill(self) -> None:
        self._system.stop()

    def start(self) -> None:
        self._system.start()

    def close(self) -> None:
        self._system.close()


class TopicVictim(Victim):
    """A topic of another log. It has no server: the runner writes the files."""

    kind = "Topic"
    faults = (RUNNER,)

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="hw")
        self._directory = Path(self._place.name) / "log"
        self._log = open_log(self._directory, upkeep=False)

    def arguments(self, port: int) -> dict[str, Any]:
        return {"name": "texts", "log": str(self._directory)}

    def shown(self) -> Rows | None:
        try:
            return {row["key"]: row["text"] for row in self._log.table("texts").to_pylist()}
        except UnknownTopic:
            return {}

    def kill(self) -> None:
        """There is no server."""

    def start(self) -> None:
        """There is no server."""

    def close(self) -> None:
        self._log.close()
        self._place.cleanup()


VICTIMS: dict[str, Callable[[], Victim]] = {
    "opensearch": OpenSearchVictim,
    "postgres": PostgresVictim,
    "redis": RedisVictim,
    "redis-parts": RedisPartsVictim,
    "topic": TopicVictim,
}
