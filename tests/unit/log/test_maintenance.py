"""Maintenance is asked of a log, and one that does not offer it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.log.embedded.log import EmbeddedLog


def test_a_log_in_a_directory_offers_it(tmp_path: Path) -> None:
    with hw.open(tmp_path / "log") as log:
        log.create("orders", "id bigint")
        log.append("orders", [{"id": 1}])
        log.maintenance.seal("orders")
        (file,) = log.maintenance.files("orders")
        assert file.exists()


def test_a_log_that_does_not_is_a_clear_error(tmp_path: Path) -> None:
    class Elsewhere(EmbeddedLog):
        maintenance = hw.Log.maintenance  # type: ignore[assignment]

    with Elsewhere(tmp_path / "log") as log, pytest.raises(UsageError, match="does not keep its own files") as error:
        log.maintenance.seal("orders")
    assert "directory" in error.value.hint
