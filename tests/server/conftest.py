"""A served shop for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.system import background
from tests.server.shop import Shop, opened


@pytest.fixture(autouse=True, scope="module")
def _fresh_background() -> None:
    """What other tests of this process have left failing in the background is not the server's."""
    with background._turn:
        background._accounts.clear()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with opened(tmp_path) as made:
        yield made
