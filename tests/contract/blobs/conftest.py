"""The places that the contract suite of blobs is run for."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.blobs import Blobs
from tests.contract.blobs.places import LocalPlace, MemoryPlace, Place

PLACES = {"local": LocalPlace, "memory": MemoryPlace}


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.open()
