"""What views and their state take on the disk, and how it is deleted, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.opening import open_store
from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_application(tmp_path)


@pytest.fixture
def published(app: Path) -> Path:
    publish(app.parent)
    return app


def test_operators_come_by_level_and_then_views(headwater: Run, published: Path) -> None:
    ran = headwater("state", published)
    assert ran.code == 0
    generation, _, _, *rows = [line.split() for line in ran.out.splitlines()[1:]]
    assert generation[:4] == ["1", "current", "1", "7"]
    assert [row[0] for row in rows] == ["[2]", "[10]", "view"]
    assert "table orders by id" in ran.out
    assert ran.err.startswith("Total: ")


def test_all_parts_of_an_operator_are_counted(headwater: Run, published: Path) -> None:
    (page,) = headwater("state", published, "--json").objects()
    assert [(one["kind"], one["name"], one["rows"], one["files"]) for one in page["state"]] == [
        ("operator", "2", 2, 1),
        ("operator", "10", 4, 2),
        ("view", "revenue", 2, 1),
    ]
    assert page["generations"][0]["views"] == ["revenue"]


def test_bases_are_listed(headwater: Run, published: Path) -> None:
    (page,) = headwater("state", published, "--json").objects()
    assert page["bases"] == []
    with open_store(published.parent / "data" / "pipelines" / "shop") as store:
        base = store.take_base(1, store.take_over(), {"orders": {0: 3}})
    (page,) = headwater("state", published, "--json").objects()
    assert [one["position"] for one in page["bases"]] == [str(base.position)] == ["7"]
    assert "base at position 7, taken " in headwater("state", published).out


def test_there_may_be_none(headwater: Run, app: Path) -> None:
    EmbeddedLog(app.parent / "data").close()
    assert headwater("state", app).err == "There is no state: the application has not run yet.\n"
    assert headwater("state", app, "--delete").err == "There is no state to delete.\n"
    assert not (app.parent / "data" / "pipelines" / "shop" / "store.db").exists()


def test_deleting_asks_first(headwater: Run, published: Path) -> None:
    ran = headwater("state", published, "--delete", answer="n\n")
    assert ran.code == 1
    assert "Delete all views of shop and their state" in ran.err
    assert headwater("query", published, "SELECT 1").code == 0
    assert headwater("state", published, "--delete", answer="y\n").code == 0
    assert headwater("query", published, "SELECT 1").code == 1


def test_deleting_without_a_question(headwater: Run, published: Path) -> None:
    ran = headwater("state", published, "--delete", "--yes")
    assert (ran.code, ran.err) == (0, "Deleted. The next run of shop rebuilds its views from the log.\n")
    assert headwater("state", published).err == "There is no state: the application has not run yet.\n"
