"""Candidates: old and new views are both current, are compared at one position, and somebody decides."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.app import App
from headwater.engine.candidates import ViewDiff
from headwater.errors import UnknownView, UsageError
from tests.spark.test_changing_views import CHANGED, build, rows, waiting
from tests.spark.test_pipeline import VIEWS, shop, trade, verified

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("spark")]

VIEW = "by_customer"


def expected(before: pa.Table, after: pa.Table) -> dict[str, int]:
    """What a difference by customer has to count, the slow way."""
    old, new = ({row["customer"]: row for row in table.to_pylist()} for table in (before, after))
    changed = [customer for customer in old.keys() & new.keys() if old[customer] != new[customer]]
    columns = {name: sum(old[one][name] != new[one][name] for one in changed) for name in before.column_names[1:]}
    return {
        "removed": len(old.keys() - new.keys()),
        "added": len(new.keys() - old.keys()),
        "changed": len(changed),
        **columns,
    }


def counted(found: ViewDiff) -> dict[str, int]:
    counts = {"removed": found.removed, "added": found.added, "changed": found.changed}
    return {**counts, **found.changed_by_column}


def contents(tmp_path: Path) -> dict[str, pa.Table]:
    """The view by its old and its new SQL, from an application of its own over the same log."""
    with App("both", log=tmp_path / "log") as app:
        app.view("old", VIEWS[VIEW])
        app.view("new", CHANGED[VIEW])
        app.catch_up()
        return {name: app.read(name) for name in ("old", "new")}


def test_a_candidate_is_kept_up_to_date_compared_switched_to_and_rolled_back(tmp_path: Path) -> None:
    dice = random.Random(2)
    build(tmp_path, VIEWS, 12)
    with shop(tmp_path, CHANGED) as app, app.subscribe(VIEW) as subscription, app.subscribe("named") as same:
        app.catch_up(approve=True)
        assert app.verify("named").equal, "it has not changed"
        with pytest.raises(UsageError, match=f"definition of view {VIEW!r} has changed"):
            app.verify(VIEW)
        waiting(subscription), waiting(same)
        for _ in range(2):
            found = app.candidate()
            assert found is not None
            assert (found.views, found.is_ready, found.is_former) == ([VIEW], True, False)
            right, compared = contents(tmp_path), app.diff(VIEW)
            assert rows(app.read(VIEW)) == rows(right["old"])
            assert counted(compared) == expected(right["old"], right["new"])
            assert (compared.rows_before, compared.rows_after) == (right["old"].num_rows, right["new"].num_rows)
            assert compared.position == app.snapshot().position == app.log.position()
            assert app.diff("named").is_equal
            with pytest.raises(UsageError, match="has the new views"):
                app.rollback()
            waiting(subscription), waiting(same)
            trade(app, dice, 3)
            app.catch_up(approve=True)
        before = rows(app.read(VIEW))
        waiting(subscription), waiting(same)
        app.switch()
        assert rows(app.read(VIEW)) == rows(contents(tmp_path)["new"])
        (difference,) = waiting(subscription)
        changes = Counter(
            dict(zip(map(repr, difference.rows.to_pylist()), difference.weights.to_pylist(), strict=True))
        )
        after = rows(app.read(VIEW))
        assert changes == {row: after[row] - before[row] for row in before | after if after[row] != before[row]}
        assert waiting(same) == []
        assert verified(app)
        # The former view is kept up to date.
        trade(app, dice, 2)
        app.catch_up(approve=True)
        back = app.candidate()
        assert back is not None
        assert (back.views, back.is_ready, back.is_former) == ([VIEW], True, True)
        right, compared = contents(tmp_path), app.diff(VIEW)
        assert rows(app.read(VIEW)) == rows(right["new"])
        assert counted(compared) == expected(right["new"], right["old"])
        app.rollback()
        assert rows(app.read(VIEW)) == rows(contents(tmp_path)["old"])
        with shop(tmp_path, VIEWS) as former:
            assert verified(former)


def test_a_run_does_what_another_process_decides(tmp_path: Path) -> None:
    build(tmp_path, VIEWS, 4)
    with shop(tmp_path, CHANGED) as app, shop(tmp_path, CHANGED) as other:
        thread = threading.Thread(target=app.run, kwargs={"approve": True})
        thread.start()
        try:
            while (found := other.candidate()) is None or not found.is_ready:
                assert thread.is_alive()
                thread.join(0.1)
            assert other.switch().views == [VIEW]
            assert rows(other.read(VIEW)) == rows(contents(tmp_path)["new"])
            trade(other, random.Random(3), 1)
            assert other.snapshot(at_least=other.log.position()).position == other.log.position()
            assert other.rollback().is_former
            assert rows(other.read(VIEW)) == rows(contents(tmp_path)["old"])
            other.discard()
            assert other.candidate() is None
            trade(other, random.Random(4), 1)
            assert other.snapshot(at_least=other.log.position()).position == other.log.position()
        finally:
            app.stop()
            thread.join()


def test_a_candidate_that_is_discarded_leaves_everything_as_it_was(tmp_path: Path) -> None:
    build(tmp_path, VIEWS, 4)
    with shop(tmp_path, CHANGED) as app:
        app.catch_up(approve=True)
        before = rows(app.read(VIEW))
        app.discard()
        assert app.candidate() is None
        assert rows(app.read(VIEW)) == before
        with pytest.raises(UsageError, match="no candidate"):
            app.diff(VIEW)
        with pytest.raises(UsageError, match="no candidate"):
            app.switch()
        # Without approval, the change is made.
        app.catch_up()
        assert verified(app)


def test_new_and_changed_columns_are_told(tmp_path: Path) -> None:
    build(tmp_path, VIEWS, 4)
    changed = {
        **{name: sql for name, sql in VIEWS.items() if name != "middle"},
        VIEW: "SELECT customer, count(*) AS orders, CAST(sum(amount) AS double) AS total FROM orders GROUP BY customer",
        "customers_seen": "SELECT DISTINCT customer FROM orders",
    }
    with shop(tmp_path, changed) as app:
        app.catch_up(approve=True)
        found = app.diff(VIEW)
        assert (found.columns_removed, found.columns_added) == (["total", "most"], ["total"])
        assert (found.removed, found.added, found.changed) == (0, 0, 0)
        new, gone = app.diff("customers_seen"), app.diff("middle")
        assert (new.rows_before, new.added, new.rows_after) == (0, new.rows_after, app.read(VIEW).num_rows)
        assert (gone.rows_after, gone.removed, len(gone.samples["removed"])) == (0, gone.rows_before, gone.rows_before)
        with pytest.raises(UnknownView):
            app.diff("nothing")
