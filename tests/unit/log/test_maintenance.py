"""Maintenance is asked of a log, and one that does not offer it says so."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.log.maintenance import maintenance_of


def test_a_log_in_a_directory_offers_it(tmp_path: Path) -> None:
    with hw.open(tmp_path / "log") as log:
        log.create("orders", "id bigint")
        log.append("orders", [{"id": 1}])
        maintenance_of(log).seal("orders")
        (file,) = maintenance_of(log).files("orders")
        assert file.exists()


def test_another_log_is_refused() -> None:
    with pytest.raises(UsageError, match="does not keep its own files") as error:
        maintenance_of(cast("hw.Log", object()))
    assert "directory" in error.value.hint
