"""A table whose feed is killed shows versions of the view only, each later than the last, and ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.sinks.lake import SYSTEMS, LakeSystem
from tests.lake.killing import kill

ROUNDS = 3
NAMES = ["delta-content", "iceberg-content", "parquet-content", "parquet-changes"]
"""`make torture-lake` kills all of them, and more often."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_table_ends_with_the_view_whatever_is_killed(tmp_path: Path, name: str) -> None:
    system: LakeSystem = SYSTEMS[name]()
    try:
        assert kill(system, tmp_path, rounds=ROUNDS, seed=11) > ROUNDS
    finally:
        system.close()
