"""A served shop for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.server.queries import pool
from headwater.system import background
from tests.server.shop import Shop, opened


@pytest.fixture(autouse=True, scope="module")
def _fresh_background() -> None:
    """What other tests of this process have left failing in the background is not the server's."""
    with background._turn:
        background._accounts.clear()


@pytest.fixture
def warm_up_after() -> float:
    """Seconds after which a server gets processes ready for queries: most tests ask none, or do not mind to wait."""
    return 3600.0


@pytest.fixture(autouse=True)
def _warm_up(monkeypatch: pytest.MonkeyPatch, warm_up_after: float) -> None:
    monkeypatch.setattr(pool, "WARM_UP_AFTER_SECONDS", warm_up_after)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with opened(tmp_path) as made:
        yield made
