"""Where a database is and who asks: the connection string, and never its password."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn

from headwater.cdc.postgres.values import SESSION
from headwater.errors import QueryFailed, SourceUnavailable, UsageError

CONNECT_SECONDS_MAX = 10
# A network that swallows everything is noticed within a minute, and not after the two hours of the operating system.
_ALIVE = {
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# A role or a database may have limits for queries of people: a snapshot takes as long as it takes.
_TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
UNLIMITED = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'"
"""The limit that not every version knows."""


@dataclass(frozen=True)
class Address:
    """A database. `str` and `repr` show no password; it comes from the URL, a file, PGPASSWORD or ~/.pgpass."""

    parameters: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        host = self.parameters.get("host", "localhost")
        where = "" if host.startswith("/") else f"{host}:{self.parameters.get('port', '5432')}"
        return f"postgresql://{where}/{self.database}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    @property
    def database(self) -> str:
        return self.parameters.get("dbname") or self.parameters.get("user") or "postgres"

    def conninfo(self, **more: str) -> str:
        """The connection string, with the settings under which values are written as `cdc.values` reads them."""
        settings = {**SESSION, **dict.fromkeys(_TIMEOUTS, "0")}
        options = " ".join([f"-c {name}={_escaped(value)}" for name, value in settings.items() if name != _ENCODING])
        given = self.parameters.get("options", "")
        return make_conninfo(
            "",
            **{
                "connect_timeout": str(CONNECT_SECONDS_MAX),
                "application_name": "headwater",
                **_ALIVE,
                **self.parameters,
                "options": f"{given} {options}".strip(),
                _ENCODING: "UTF8",
                **more,
            },
        )

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection of its own, each statement a transaction. Raises `SourceUnavailable`."""
        try:
            connection = psycopg.connect(self.conninfo(), autocommit=True)
            connection.execute(UNLIMITED)
        except psycopg.Error as error:
            raise self.unavailable(error) from None
        return connection

    def replicate(self) -> PGconn:
        """A connection that speaks the replication protocol. Raises `SourceUnavailable`."""
        # Not at one go: that would hold all threads of the process until the server answers.
        connection = pq.PGconn.connect_start(self.conninfo(replication="database").encode())
        _complete(connection, CONNECT_SECONDS_MAX)
        if connection.status != pq.ConnStatus.OK:
            reason = connection.get_error_message() if connection.status == pq.ConnStatus.BAD else "timeout expired"
            connection.finish()
            raise SourceUnavailable(str(self), _sentence(reason))
        connection.exec_(UNLIMITED.encode())
        return connection

    def failed(self, error: psycopg.Error) -> SourceUnavailable | QueryFailed:
        """What to raise for an error of the driver: the server is not there, or it is, and refuses."""
        if isinstance(error, psycopg.OperationalError):
            return self.unavailable(error)
        return QueryFailed(str(self), _sentence(str(error)))

    def unavailable(self, error: Exception) -> SourceUnavailable:
        """What to raise for an error of the driver."""
        return SourceUnavailable(str(self), _sentence(str(error)))


def _complete(connection: PGconn, seconds_max: float) -> None:
    """Returns when a connection that was begun is there, or cannot be, or takes too long."""
    deadline = time.monotonic() + seconds_max
    while connection.status != pq.ConnStatus.BAD:
        wanted = connection.connect_poll()
        if wanted not in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
            return
        left = deadline - time.monotonic()
        if left <= 0 or not wait(connection.socket, left, writing=wanted == pq.PollingStatus.WRITING):
            return


_ENCODING = "client_encoding"


def address_of(url: str, *, password_file: str | os.PathLike[str] | None = None) -> Address:
    """The address that a URL or connection string names. Raises `UsageError`, which does not repeat it."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UsageError(
            "The address of the database is not valid.",
            hint="It looks like postgresql://user@host:5432/database?sslmode=verify-full.",
        ) from None
    parameters = {name: str(value) for name, value in given.items() if value is not None}
    if password_file is not None:
        path = Path(password_file)
        if not path.is_file():
            raise UsageError(f"There is no password file {path}.")
        parameters["password"] = path.read_text().rstrip("\r\n")
    return Address(parameters)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _sentence(text: str) -> str:
    return " ".join(text.split()).removeprefix("connection failed: ").rstrip(".")


def wait(socket: int, seconds: float | None, *, writing: bool = False) -> bool:
    """Whether a socket can be read (or written) within the time; None is for ever.

    By `poll`: `select` knows only the first thousand open files of a process.
    """
    poll = select.poll()
    poll.register(socket, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))
