"""The places that the contract suite of blobs is run for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.engine.blobs import Blobs
from tests.archives.servers import S3Server
from tests.contract.blobs.places import LocalPlace, MemoryPlace, ObjectsPlace, Place

PLACES: dict[str, Callable[[Path], Place]] = {"local": LocalPlace, "memory": MemoryPlace}
S3 = "s3"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    started = S3Server()
    yield started
    started.close()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A server, and credentials for it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return s3_server


@pytest.fixture(params=[*sorted(PLACES), S3])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == S3:
        return ObjectsPlace(request.getfixturevalue("s3"), tmp_path)
    return PLACES[request.param](tmp_path)


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.open()
