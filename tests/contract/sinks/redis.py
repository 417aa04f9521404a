"""A Redis server as a system of the contract suite."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import redis

from headwater.connectors.redis.layout import Format
from headwater.connectors.redis.target import Redis
from headwater.engine.sinks.target import Target
from tests.contract.sinks.keyed import System

PREFIX = "t*xt:"


class Server:
    """A Redis server in a directory of its own, which syncs every write."""

    def __init__(self, *, password: str | None = None) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="hwredis")
        self._password = password
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    def start(self, appendonly: str = "yes") -> None:
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self._place.name, "save": ""}
        options |= {"appendonly": appendonly, "appendfsync": "always", "loglevel": "warning"}
        options |= {"requirepass": self._password} if self._password else {}
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        with (Path(self._place.name) / "log").open("ab") as said:
            self._process = subprocess.Popen(["redis-server", *arguments], stdout=said, stderr=said)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                self.connect().ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return
        raise TimeoutError("Redis does not answer")

    def connect(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def back_up(self) -> bytes:
        """The database as an RDB file."""
        with self.connect() as client:
            client.save()
        return (Path(self._place.name) / "dump.rdb").read_bytes()

    def restore(self, rdb: bytes) -> None:
        """Starts again with what an RDB file has."""
        self.kill()
        shutil.rmtree(Path(self._place.name) / "appendonlydir")
        (Path(self._place.name) / "dump.rdb").write_bytes(rdb)
        self.start(appendonly="no")
        with self.connect() as client:
            client.config_set("appendonly", "yes")

    def close(self) -> None:
        self.kill()
        self._place.cleanup()


class RedisSystem(System):
    """A server with rows under a prefix that looks like a pattern."""

    refuses: ClassVar[bool] = False

    def __init__(self, form: str) -> None:
        self.server, self.form = Server(), cast("Format", form)

    def target(self) -> Target:
        return Redis(self.server.url, prefix=PREFIX, format=self.form)

    def rows(self) -> dict[int, str]:
        held: dict[int, str] = {}
        with self.server.connect() as client:
            client.set("txxt:1", "not ours")
            for name in cast("list[bytes]", client.keys("t[*]xt:*")):
                row: dict[str, Any]
                if self.form == "json":
                    row = json.loads(cast("bytes", client.get(name)) or "{}")
                else:
                    found = cast("dict[bytes, bytes]", client.hgetall(name))
                    row = {each.decode(): value.decode() for each, value in found.items()}
                # A key may have been deleted meanwhile.
                if row:
                    held[int(name.decode().removeprefix(PREFIX))] = row["text"]
        return held

    def put(self, key: int, text: str | None) -> None:
        with self.server.connect() as client:
            client.delete(f"{PREFIX}{key}")
            if text is not None and self.form == "json":
                client.set(f"{PREFIX}{key}", json.dumps({"key": key, "text": text}))
            elif text is not None:
                client.hset(f"{PREFIX}{key}", mapping={"key": str(key), "text": text})

    def lose(self) -> None:
        with self.server.connect() as client:
            client.flushall()

    def back_up(self) -> Callable[[], None]:
        rdb = self.server.back_up()
        return lambda: self.server.restore(rdb)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def close(self) -> None:
        self.server.close()
