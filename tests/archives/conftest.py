"""What the tests of archives share: one S3 server, and the environment that credentials come from."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from tests.archives.servers import Line, S3Server


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    started = S3Server()
    yield started
    started.close()


@pytest.fixture
def line(server: S3Server) -> Iterator[Line]:
    made = Line(server.port)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only place that credentials come from."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture
def prefix() -> str:
    """A place in the bucket that no other test uses."""
    return uuid.uuid4().hex[:12]


@pytest.fixture
def archive(line: Line, prefix: str) -> str:
    return f"s3://bucket/{prefix}?endpoint_override={line.url}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log", clock=clock, upkeep=False) as log:
        yield log
