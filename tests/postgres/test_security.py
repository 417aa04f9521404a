"""Passwords from all places, TLS as the address says, and nothing of either in what is shown."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres.address import Address, address_of
from headwater.connectors.postgres.copying import Copier
from headwater.errors import SourceUnavailable
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import catch_up
from tests.postgres.servers import Server

Source = psycopg.Connection[Any]
SECRET = "s'Ec \\ret"


@pytest.fixture
def role(server: Server, source: Source, database: str) -> Iterator[str]:
    """A user who needs a password."""
    name = f"r_{database}"
    source.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 's''Ec \\ret'")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all {name} scram-sha-256\nlocal replication {name} scram-sha-256\n{before}")
    source.execute("SELECT pg_reload_conf()")
    yield name
    rules.write_text(before)
    source.execute("SELECT pg_reload_conf()")
    source.execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def connects(address: Address) -> None:
    """By every way that capture uses."""
    address.connect().close()
    address.replicate().finish()
    Copier(address).close()


def test_passwords_from_all_places(
    server: Server, database: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url(database, role)
    for refused in (url, url.replace(f"{role}@", f"{role}:wrong@")):
        with pytest.raises(SourceUnavailable) as raised:
            connects(address_of(refused))
        assert "wrong" not in str(raised.value)
    connects(address_of(psycopg.conninfo.make_conninfo(url, password=SECRET)))
    (tmp_path / "password").write_text(SECRET + "\n")
    connects(address_of(url, password_file=tmp_path / "password"))
    with monkeypatch.context() as environment:
        environment.setenv("PGPASSWORD", SECRET)
        connects(address_of(url))
    escaped = SECRET.replace("\\", "\\\\")
    (tmp_path / "pgpass").write_text(f"*:*:*:{role}:{escaped}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    connects(address_of(url))


def test_a_source_with_a_password(
    source: Source, log: Log, make: Make, server: Server, database: str, role: str
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (1)")
    said: list[str] = []
    capture = make("t", url=psycopg.conninfo.make_conninfo(server.url(database, role), password=SECRET))
    capture._say = said.append
    catch_up(capture, source)
    assert log.table(capture.options.names.topic("public", "t")).num_rows == 1
    shown = [
        *said,
        repr(capture.options),
        str(capture.options.address),
        str(log.bookmark(capture.options.names.tables)),
    ]
    assert not [text for text in shown if "Ec" in text]


@contextmanager
def without_tls() -> Iterator[tuple[int, list[bytes]]]:
    """A server that says that it does not speak TLS: its port, and everything that is sent to it."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the test is over
                return
            with connection:
                received.append(connection.recv(8))
                connection.sendall(b"N")
                received.append(connection.recv(1024))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], received
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_who_asks_for_tls_is_not_served_without_it() -> None:
    with without_tls() as (port, received):
        address = address_of(f"postgresql://ann:sEcret@127.0.0.1:{port}/shop?sslmode=require&gssencmode=disable")
        for way in (address.connect, address.replicate, lambda: Copier(address)):
            with pytest.raises(SourceUnavailable, match="SSL"):
                way()
    asked = struct.pack(">II", 8, 80877103)
    assert received == [asked, b""] * 3, "each way asks for TLS, and says nothing more without it"
