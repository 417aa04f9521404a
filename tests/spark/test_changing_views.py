"""Views that change one at a time: what did not change keeps its state and stays current, crash or not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.app import App
from headwater.engine import following
from headwater.engine.arrangements import arrangement_of
from headwater.engine.subscription import Changes, Subscription
from headwater.errors import RecordFailed
from tests.spark.forgetting import AGE, World, prove
from tests.spark.forgetting import VIEWS as FORGETTING
from tests.spark.test_pipeline import VIEWS, shop, trade, verified

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("spark")]

ROOT = Path(__file__).parents[2]
CHANGED = {
    **VIEWS,
    "by_customer": """
        SELECT customer, count(*) AS orders, sum(amount) + 1 AS total, max(amount) AS most
        FROM orders WHERE amount > 10 GROUP BY customer
    """,
}
"""One of several views means something else; its columns are the same."""


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def added(content: Counter[str], changes: Iterable[Changes]) -> Counter[str]:
    """What changes make of a content."""
    for found in changes:
        if found.snapshot:
            content = Counter()
        for row, weight in zip(found.rows.to_pylist(), found.weights.to_pylist(), strict=True):
            content[repr(row)] += weight
    assert min(content.values(), default=0) >= 0
    return +content


def waiting(subscription: Subscription) -> list[Changes]:
    found = []
    while (changes := subscription.poll()) is not None:
        found.append(changes)
    return found


def files(app: App, view: str) -> set[str]:
    published = app.published()
    assert published is not None
    return {run.file for run in app.pipeline.store.runs(published.id).get(arrangement_of(view), [])}


def build(directory: Path, views: Mapping[str, str], commits: int = 6) -> None:
    """A shop with some trade, its views kept up to date."""
    with shop(directory, views) as app:
        trade(app, random.Random(4), commits)
        app.catch_up()


def test_the_others_stay_current_while_records_keep_coming(tmp_path: Path) -> None:
    dice = random.Random(11)
    build(tmp_path, VIEWS, 12)
    with shop(tmp_path, VIEWS) as former, shop(tmp_path, CHANGED, batch_rows_max=4) as app:
        same, other = app.subscribe("named"), app.subscribe("by_customer")
        with same, other:
            content = {name: added(Counter(), waiting(one)) for name, one in (("named", same), ("by_customer", other))}
            built = 0
            for progress in app.follow(lambda: app.generations()[0].status == "retired"):
                if progress.build is None or built == 4:
                    continue
                built += 1
                assert progress.build.views == ["by_customer"]
                assert progress.build.total > 0
                # Readers see the former definition, which stays current.
                assert verified(former)
                trade(former, dice, 1)
            assert built == 4
            assert app.pipeline.building is None
            app.catch_up()
            trade(app, dice, 2)
            app.catch_up()
            for name, subscription in (("named", same), ("by_customer", other)):
                found = waiting(subscription)
                assert not any(changes.snapshot for changes in found), "nothing is read again"
                content[name] = added(content[name], found)
                assert content[name] == rows(app.read(name))
        assert verified(app)


def test_a_view_that_did_not_change_says_nothing_and_keeps_its_files(tmp_path: Path) -> None:
    build(tmp_path, VIEWS)
    with shop(tmp_path, VIEWS) as former, former.subscribe("named") as same:
        position, before = former.snapshot(["named"]).position, files(former, "named")
        (first,) = waiting(same)
        with shop(tmp_path, CHANGED) as app:
            app.catch_up()
            assert app.snapshot().position == position
            assert files(app, "named") == before
            assert waiting(same) == []
            trade(app, random.Random(1), 3)
            app.catch_up()
            assert added(rows(first.rows), waiting(same)) == rows(app.read("named"))
            # What was told of the former definition can be continued, and the view read as it was.
            with Subscription(app.directory, "named", position, generation=first.generation) as resumed:
                assert added(rows(first.rows), waiting(resumed)) == rows(app.read("named"))
            for view in ("named", "by_customer"):
                assert app.read(view, at=position).schema == former.published().definition.view(view).schema  # type: ignore[union-attr]
            assert rows(app.read("named", at=position)) == rows(first.rows)


@pytest.mark.parametrize(
    "views",
    [
        pytest.param({name: sql for name, sql in VIEWS.items() if name != "middle"}, id="removed"),
        pytest.param({**VIEWS, "named": f"-- named\n{VIEWS['named'].lower()}"}, id="reformatted"),
        pytest.param({("called" if name == "named" else name): sql for name, sql in VIEWS.items()}, id="renamed"),
        pytest.param(dict(reversed(VIEWS.items())), id="in another order"),
    ],
)
def test_what_is_all_there_is_there_at_once(tmp_path: Path, views: Mapping[str, str]) -> None:
    build(tmp_path, VIEWS)
    with shop(tmp_path, views) as app:
        assert [progress.records for progress in app.batches()] == []
        assert verified(app)
        trade(app, random.Random(5), 2)
        app.catch_up()
        assert verified(app)


def test_a_new_column_that_nobody_reads_disturbs_nobody(tmp_path: Path) -> None:
    build(tmp_path, VIEWS)
    with shop(tmp_path) as app:
        app.topic("orders", "id bigint, customer bigint, amount bigint, note string", key="id", partitions=2)
        assert [progress.records for progress in app.batches()] == []
        app.log.append("orders", [{"id": 1, "customer": 2, "amount": 3, "note": "new"}])
        app.catch_up()
        assert verified(app)


def test_a_view_that_reads_a_changed_one_changes_with_it(tmp_path: Path) -> None:
    best = {"best": "SELECT customer, total FROM by_customer ORDER BY total DESC, customer LIMIT 2"}
    build(tmp_path, {**VIEWS, **best})
    with shop(tmp_path, {**CHANGED, **best}) as app:
        first = next(app.batches())
        assert first.build is not None
        assert first.build.views == ["by_customer", "best"]
        app.catch_up()
        assert verified(app)


def test_a_view_of_more_columns_of_the_same_table(tmp_path: Path) -> None:
    build(tmp_path, {"named": VIEWS["named"]})
    with shop(tmp_path, VIEWS) as app:
        app.catch_up()
        assert verified(app)
        trade(app, random.Random(6), 3)
        app.catch_up()
        assert verified(app)


def test_a_build_that_fails_leaves_the_former_views(tmp_path: Path) -> None:
    build(tmp_path, VIEWS)
    failing = {**VIEWS, "all_orders": "SELECT sum(100 / (amount - amount)) AS n FROM orders"}
    told: list[Exception] = []
    with shop(tmp_path, VIEWS) as former, shop(tmp_path, failing) as app:
        trade(app, random.Random(6), 1)
        end = app.log.position()
        for _ in app.follow(lambda: bool(told) and app.pipeline.position >= end, on_build_failure=told.append):
            pass
        assert isinstance(told[0], RecordFailed)
        assert app.pipeline.building is not None
        assert "all_orders" in (app.pipeline.building.error or "")
        assert former.snapshot().position == end
        assert verified(former)
    with shop(tmp_path, failing) as app, pytest.raises(RecordFailed, match="all_orders"):
        app.catch_up()
    with shop(tmp_path, CHANGED) as app:
        app.catch_up()
        assert verified(app)


def test_a_view_that_stopped_the_pipeline_can_be_changed(tmp_path: Path) -> None:
    failing = {**VIEWS, "share": "SELECT id, 100 / amount AS share FROM orders"}
    with shop(tmp_path, failing) as app:
        app.log.append("orders", [{"id": 100, "customer": 1, "amount": 5}])
        app.catch_up()
        app.log.append("orders", [{"id": 101, "customer": 1, "amount": 0}])
        with pytest.raises(RecordFailed):
            app.catch_up()
    with shop(tmp_path, {**VIEWS, "share": "SELECT id, 100 / amount AS share FROM orders WHERE amount > 0"}) as app:
        app.catch_up()
        assert app.read("share").num_rows == 1
        assert verified(app)


def test_a_record_that_a_changed_view_refused_counts_again(tmp_path: Path) -> None:
    def dead_letters(directory: Path, share: str) -> App:
        app = shop(directory)
        app.view("share", share, on_error="dead_letter")
        return app

    with dead_letters(tmp_path, "SELECT id, 100 / amount AS share FROM orders") as app:
        for amount in (5, 0, 7):
            app.log.append("orders", [{"id": amount, "customer": 1, "amount": amount}])
        app.catch_up()
        assert app.read("all_orders").to_pylist() == [{"n": 2}]
        assert len(app.dead_letters()) == 1
    with dead_letters(tmp_path, "SELECT id, 100 / (amount + 1) AS share FROM orders") as app:
        app.catch_up()
        assert app.read("all_orders").to_pylist() == [{"n": 3}]
        assert app.dead_letters() == []
        assert verified(app)
    with dead_letters(tmp_path, "SELECT id, 100 / (amount - 7) AS share FROM orders") as app:
        app.catch_up()
        assert app.read("all_orders").to_pylist() == [{"n": 2}], "what the new view refuses, all of them do"
        assert verified(app)


def test_a_build_that_is_killed_continues(tmp_path: Path) -> None:
    build(tmp_path, VIEWS, 12)
    dice = random.Random(3)
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.changing_driver", str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    with driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("built 3"):
                break
        os.killpg(driver.pid, signal.SIGKILL)
    with shop(tmp_path, VIEWS) as former:
        trade(former, dice, 2)
        assert verified(former), "readers see what was there before"
        begun = former.generations()[-1]
        assert (begun.status, begun.batch >= 3) == ("building", True)
    with shop(tmp_path, CHANGED) as app:
        app.catch_up()
        assert app.generations()[-1].id == begun.id, "it was not begun again"
        assert verified(app)


@pytest.mark.parametrize("forgets_before", [False, True])
def test_views_over_a_topic_that_forgets(tmp_path: Path, forgets_before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built before retention deleted records goes together with what is built after it."""
    monkeypatch.setattr(following, "HOLD_SECONDS", 0.0)
    views = {name: FORGETTING[name] for name in ("totals", "all_of_it")}
    changed = {**views, "totals": "SELECT g, avg(v) AS mean FROM t GROUP BY g"}
    world = World(tmp_path)
    world.log.create("t", "id bigint, g string, v bigint", retention_age=AGE)
    with world.app(views) as app:
        world.append((1, "a", 1), (2, "b", 2))
        app.catch_up()
        if forgets_before:
            world.pass_time()
        world.append((3, "a", 3))
        app.catch_up()
        prove(app, views)
    with world.app(changed) as app:
        app.catch_up()
        prove(app, changed)
        world.append((4, "b", 4))
        world.pass_time()
        world.append((5, "b", 5))
        app.catch_up()
        prove(app, changed)
    with world.app(dict(reversed(changed.items()))) as app:
        app.catch_up()
        world.pass_time()
        world.append((6, "b", 6))
        app.catch_up()
        prove(app, changed)
    world.log.close()
