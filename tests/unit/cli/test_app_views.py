"""Changed views from the command line: status, comparison, decision."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.runs import RunWriter
from headwater.log.embedded.position import commit_position
from tests.unit.cli.app_sample import COLUMNS, ROWS, definition, publish, write_application
from tests.unit.cli.conftest import Run


@pytest.fixture
def proposed(tmp_path: Path) -> Path:
    """An application with a candidate that has only one of two rows."""
    app = write_application(tmp_path)
    publish(tmp_path)
    schema = pa.schema([("_hash", pa.int64()), *COLUMNS, ("_w", pa.int64())])
    with open_store(tmp_path / "data" / "pipelines" / "shop") as store:
        epoch = store.take_over()
        built = store.open_generation("two", definition({"revenue": "SELECT 2"}))
        writer = RunWriter(store.blobs, name="test")
        writer.add("view/revenue", pa.Table.from_pylist([{"_hash": 0, **ROWS[0], "_w": 1}], schema))
        store.commit(BatchCommit(built.id, epoch, 1, commit_position(7), writer.close()))
    return app


def test_there_may_be_none(headwater: Run, tmp_path: Path) -> None:
    app = write_application(tmp_path)
    publish(tmp_path)
    assert headwater("views", "status", app).err == "No views are being built or waiting for a decision.\n"
    ran = headwater("views", "diff", app, "revenue")
    assert (ran.code, ran.err.startswith("error: There is no candidate.\nhint: ")) == (2, True)
    assert headwater("views", "switch", app).code == 2


def test_it_is_compared(headwater: Run, proposed: Path) -> None:
    assert "New versions of revenue are up to date at position 7" in headwater("views", "status", proposed).err
    ran = headwater("views", "diff", proposed, "revenue")
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()][1:] == [
        ["rows", "removed", "1"], ["rows", "added", "0"], ["rows", "changed", "0"],
        ["-", "country=FR", "revenue=null", "tags=null"],
    ]  # fmt: skip
    assert ran.err == "They differ at position 7: 2 and 1 row.\n"
    (found,) = headwater("views", "diff", proposed, "revenue", "--json").objects()
    assert (found["removed"], found["key"]) == (1, ["country"])
    assert found["samples"] == {"removed": [{"country": "FR", "revenue": None, "tags": None}], "added": []}


def test_it_is_switched_to_rolled_back_and_discarded(headwater: Run, proposed: Path) -> None:
    rows = ("query", proposed, "SELECT count(*) AS n FROM revenue", "--json")
    assert headwater("views", "switch", proposed).err == "Readers see the new versions of revenue.\n"
    assert headwater(*rows).objects() == [{"n": 1}]
    assert "Former versions of revenue are up to date" in headwater("views", "status", proposed).err
    (told,) = headwater("views", "rollback", proposed, "--json").objects()
    assert (told["views"], told["is_former"]) == (["revenue"], True)
    assert headwater(*rows).objects() == [{"n": 2}]
    assert headwater("views", "discard", proposed).err == "Discarded the candidate for revenue.\n"
    (status,) = headwater("views", "status", proposed, "--json").objects()
    assert status["candidate"] is None
