"""`headwater log iceberg`: what it says, and what it says where its packages are missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import Run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_it_registers_and_says_what_is_not_sealed(
    headwater: Run, directory: Path, log: EmbeddedLog, tmp_path: Path
) -> None:
    log.append("orders", [{"id": 1}, {"id": 2}], partition=0)
    log.seal("orders")
    log.append("orders", [{"id": 3}], partition=0)
    options = ("--catalog", f"sqlite:///{tmp_path}/catalog.db", "--table", "shop.orders")
    ran = headwater("log", "iceberg", directory, "orders", *options)
    assert ran.code == 0
    assert ran.out.strip().endswith(".metadata.json")
    assert ran.err.splitlines() == [
        "Table shop.orders has 2 records in 1 file: 1 added, 0 removed.",
        f"hint: 1 record not sealed yet: `headwater log seal {directory} orders` and run it again.",
    ]
    (again,) = headwater("log", "iceberg", directory, "orders", *options, "--json").objects()
    assert (again["added"], again["files"], again["unsealed"]) == (0, 1, 1)


def test_a_missing_package_is_named(
    headwater: Run, directory: Path, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headwater.connectors.iceberg.table", raising=False)
    monkeypatch.delitem(sys.modules, "headwater.connectors.iceberg.catalog", raising=False)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    ran = headwater("log", "iceberg", directory, "orders", "--catalog", "c", "--table", "a.b")
    assert ran.code == 2
    assert "hint: pip install 'headwater[iceberg]'" in ran.err
