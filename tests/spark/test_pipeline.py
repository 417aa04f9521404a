"""A pipeline over a real log and a real Spark: exactly once through crashes, fencing, generations, errors, reads."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app import App
from headwater.engine.embedded.store import EmbeddedViewStore
from headwater.engine.pipeline import Pipeline
from headwater.engine.reading import Reader
from headwater.errors import Fenced, NotYet, RecordFailed, UnknownView, UsageError
from headwater.log.embedded.position import commit_position
from headwater.spark.program import Program

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("spark")]

VIEWS = {
    "by_customer": """
        SELECT customer, count(*) AS orders, sum(amount) AS total, max(amount) AS most FROM orders GROUP BY customer
    """,
    "named": "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON c.id = o.customer",
    "middle": "SELECT customer, percentile(amount, 0.5) AS middle FROM orders GROUP BY customer",
    "all_orders": "SELECT count(*) AS n FROM orders",
}


def shop(directory: Path, views: Mapping[str, str] = VIEWS, **options: Any) -> App:
    app = App("shop", log=directory / "log", **options)
    app.topic("orders", "id bigint, customer bigint, amount bigint", key="id", partitions=2)
    app.topic("customers", "id bigint, name string", key="id")
    for name, sql in views.items():
        app.view(name, sql)
    return app


def trade(app: App, dice: random.Random, commits: int) -> None:
    """Random orders, changed orders, deleted orders and moving customers."""
    for _ in range(commits):
        with app.log.commit() as commit:
            for _ in range(dice.randrange(1, 4)):
                row = {"id": dice.randrange(12), "customer": dice.randrange(4), "amount": dice.randrange(100)}
                if dice.random() < 0.2:
                    commit.delete("orders", [{"id": row["id"]}])
                else:
                    commit.append("orders", [row])
            commit.append("customers", [{"id": dice.randrange(4), "name": dice.choice("abc")}])


def verified(app: App) -> bool:
    return all(app.verify(view).equal for view in app.views)


class Crash(BaseException):
    """Stands for the death of the driver: nothing may handle it."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with shop(tmp_path) as app:
        yield app


def test_views_are_right_before_the_first_record(app: App) -> None:
    app.catch_up()
    assert app.read("all_orders").to_pylist() == [{"n": 0}]
    assert verified(app)


@pytest.fixture(scope="module")
def traded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A shop with 15 commits of trade, its views planned."""
    with shop(tmp_path_factory.mktemp("traded")) as app:
        trade(app, random.Random(5), 15)
        app.catch_up()
        yield app


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.dictionaries(st.integers(1, 15), st.booleans(), max_size=5))
def test_any_cut_and_any_number_of_tasks_gives_the_same_views(
    traded: App, tmp_path: Path, cuts: dict[int, bool]
) -> None:
    directory = Path(tempfile.mkdtemp(dir=tmp_path))
    pipeline = Pipeline(traded.log, directory, traded.program, policies={})
    for commit, one_task in sorted({**cuts, 15: cuts.get(15, True)}.items()):
        pipeline.one_task_rows_max = 20_000 if one_task else 0
        for _ in pipeline.catch_up(commit_position(commit)):
            pass
    pipeline.close()
    with Reader(directory) as reader:
        found = reader.read(list(VIEWS)).tables
    expected = traded.snapshot().tables
    for view in VIEWS:
        assert sorted(map(repr, found[view].to_pylist())) == sorted(map(repr, expected[view].to_pylist()))


def test_what_was_traded_is_right(traded: App) -> None:
    assert verified(traded)


@pytest.mark.parametrize("moment", ["before the commit", "after the commit", "between two jobs"])
def test_a_driver_that_dies_is_as_if_it_had_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    dice = random.Random(moment)
    commit, collected = EmbeddedViewStore.commit, Program._collected

    def dying_commit(self: EmbeddedViewStore, *args: Any, **options: Any) -> None:
        if moment == "after the commit":
            commit(self, *args, **options)
        raise Crash

    def dying_job(self: Program, *args: Any) -> list[str]:
        collected(self, *args)
        raise Crash

    with shop(tmp_path) as app:
        app.catch_up()
        for _ in range(3):
            trade(app, dice, 4)
            with monkeypatch.context() as patch:
                if moment == "between two jobs":
                    patch.setattr(Program, "_collected", dying_job)
                else:
                    patch.setattr(EmbeddedViewStore, "commit", dying_commit)
                with pytest.raises(Crash):
                    app.catch_up()
            # A new driver takes over where the dead one left off.
            app._pipeline = None
            app.catch_up()
            assert verified(app)


def test_a_second_driver_fences_the_first(tmp_path: Path) -> None:
    with shop(tmp_path) as first, shop(tmp_path) as second:
        first.catch_up()
        second.catch_up()
        trade(first, random.Random(1), 2)
        with pytest.raises(Fenced, match="replaced by a newer one"):
            first.catch_up()
        second.catch_up()
        assert verified(second)


def test_changed_views_are_built_beside_the_old_ones(tmp_path: Path) -> None:
    with shop(tmp_path) as app:
        trade(app, random.Random(2), 5)
        app.catch_up()
        old = app.read("by_customer")
    changed = {**VIEWS, "by_customer": "SELECT customer, min(amount) AS least FROM orders GROUP BY customer"}
    with shop(tmp_path, changed, batch_rows_max=1) as app:
        batches = app.batches()
        next(batches)
        assert app.read("by_customer").schema == old.schema, "the old generation is readable meanwhile"
        assert sorted(map(repr, app.read("by_customer").to_pylist())) == sorted(map(repr, old.to_pylist()))
        for _ in batches:
            pass
        assert app.read("by_customer").column_names == ["customer", "least"]
        assert verified(app)
        assert [generation.status for generation in app.generations()] == ["retired", "current"]


def test_deleted_state_is_rebuilt(app: App) -> None:
    trade(app, random.Random(3), 5)
    app.catch_up()
    before = app.read("by_customer")
    app.delete_state()
    app.catch_up()
    assert sorted(map(repr, app.read("by_customer").to_pylist())) == sorted(map(repr, before.to_pylist()))


def test_state_follows_the_content_not_the_number_of_changes(app: App) -> None:
    app.log.append("orders", [{"id": number, "customer": number % 3, "amount": number} for number in range(10)])
    app.catch_up()
    for number in range(25):
        app.log.append("orders", [{"id": 1, "customer": 1, "amount": number}])
        app.catch_up()
    sizes = app.state()
    assert sum(size.rows for size in sizes.values()) < 600
    assert max(size.runs for size in sizes.values()) < 15


def test_views_of_a_compacted_topic_are_built_anew(tmp_path: Path) -> None:
    with App("compacted", log=tmp_path / "log", batch_rows_max=3) as app:
        app.topic("orders", "id bigint, amount bigint", key="id", cleanup="compact")
        app.view("total", "SELECT count(*) AS n, sum(amount) AS total FROM orders")
        for number in range(20):
            app.log.append("orders", [{"id": number % 3, "amount": number}])
        app.catch_up()
        before = app.read("total").to_pylist()
        app.log.maintenance.seal("orders")
        assert app.log.maintenance.compact("orders")
        app.delete_state()
        app.catch_up()
        assert app.read("total").to_pylist() == before
        assert app.verify("total").equal


def test_tasks_share_a_union_by_its_keys_not_by_its_branches(tmp_path: Path) -> None:
    with App("union", log=tmp_path / "log", one_task_rows_max=0) as app:
        app.topic("left_clicks", "page bigint")
        app.topic("right_clicks", "page bigint")
        both = "SELECT page FROM left_clicks UNION ALL SELECT page FROM right_clicks"
        app.view("pages", f"SELECT page, count(*) AS n FROM ({both}) GROUP BY page")
        app.view("distinct_pages", f"SELECT DISTINCT page % 40 AS page FROM ({both})")
        for _ in range(2):
            app.log.append("left_clicks", [{"page": number} for number in range(50)])
            app.log.append("right_clicks", [{"page": number} for number in range(50)])
            app.catch_up()
            assert verified(app)


DISTINCTS = """
    SELECT customer, avg(DISTINCT amount) AS mean, sum(DISTINCT id) FILTER (WHERE amount > 10) AS ids,
        median(amount) AS middle, min(id) AS least
    FROM orders GROUP BY customer
"""


def test_state_of_another_plan_of_the_same_sql_is_not_gone_on_with(tmp_path: Path) -> None:
    dice = random.Random(12)
    for number in range(4):
        with shop(tmp_path, {"distincts": DISTINCTS}) as app:
            # Spark numbers the columns of all topics, and plans distinct aggregates in the order of numbers.
            for extra in range(number):
                app.topic(f"extra{number}{extra}", "a bigint, b bigint")
            trade(app, dice, 3)
            app.catch_up()
            assert verified(app)


def test_the_same_application_goes_on_with_its_state(tmp_path: Path) -> None:
    for _ in range(3):
        with shop(tmp_path) as app:
            trade(app, random.Random(13), 1)
            app.catch_up()
            assert len(app.generations()) == 1


def test_a_subscriber_gets_the_content_and_then_every_change(app: App) -> None:
    app.log.append("orders", [{"id": 1, "customer": 7, "amount": 5}])
    app.catch_up()
    with app.subscribe("by_customer") as changes:
        first = changes.poll(timedelta(seconds=5))
        assert first is not None
        assert first.snapshot
        assert first.rows.to_pylist() == [{"customer": 7, "orders": 1, "total": 5, "most": 5}]
        app.log.append("orders", [{"id": 2, "customer": 7, "amount": 6}])
        position = app.catch_up()
        second = changes.poll(timedelta(seconds=5))
        assert second is not None
        assert second.position == position
        weighted = sorted(zip(second.rows["orders"].to_pylist(), second.weights.to_pylist(), strict=True))
        assert weighted == [(1, -1), (2, 1)]


def test_what_is_no_position_and_no_view_is_said_at_once(app: App) -> None:
    given: Any = 10
    for call in (
        lambda: app.read("all_orders", at_least=given),
        lambda: app.query("SELECT 1", at_least=given),
        lambda: app.subscribe("all_orders", after=given),
    ):
        with pytest.raises(UsageError, match="not 10"):
            call()
    with pytest.raises(UnknownView):
        app.subscribe("nothing")


def test_a_read_waits_for_its_own_write(app: App) -> None:
    app.catch_up()
    position = app.log.append("orders", [{"id": 1, "customer": 7, "amount": 5}])
    with pytest.raises(NotYet):
        app.read("all_orders", at_least=position, timeout=timedelta(milliseconds=10))
    app.catch_up()
    assert app.read("all_orders", at_least=position).to_pylist() == [{"n": 1}]


def test_queries_see_all_views_at_one_position(app: App) -> None:
    trade(app, random.Random(4), 3)
    app.catch_up()
    found = app.query("SELECT sum(orders) AS a, (SELECT n FROM all_orders) AS b FROM by_customer").to_pylist()
    assert found[0]["a"] == found[0]["b"]


def ratios(directory: Path, on_error: Any) -> App:
    app = App("ratios", log=directory / "log")
    app.topic("pairs", "id bigint, a bigint, b bigint", key="id")
    app.view("ratio", "SELECT id, a div b AS ratio FROM pairs", on_error=on_error)
    app.view("count", "SELECT count(*) AS n FROM pairs")
    return app


def test_a_record_that_fails_stops_the_pipeline_and_is_named(tmp_path: Path) -> None:
    with ratios(tmp_path, "fail") as app:
        app.log.append("pairs", [{"id": 1, "a": 6, "b": 2}])
        app.log.append("pairs", [{"id": 2, "a": 6, "b": 3}, {"id": 3, "a": 6, "b": 0}, {"id": 4, "a": 6, "b": 1}])
        app.log.append("pairs", [{"id": 5, "a": 6, "b": 1}])
        with pytest.raises(RecordFailed) as caught:
            app.catch_up()
        assert (caught.value.view, caught.value.topic, caught.value.partition, caught.value.offset) == (
            "ratio", "pairs", 0, 2,
        )  # fmt: skip
        assert "Division by zero" in caught.value.reason
        assert "a div b" in caught.value.reason
        assert app.read("ratio").to_pylist() == [{"id": 1, "ratio": 3}], "what came before it is published"


def test_a_record_that_fails_is_set_aside(tmp_path: Path) -> None:
    with ratios(tmp_path, "dead_letter") as app:
        rows = [{"id": number, "a": 6, "b": number % 3} for number in range(7)]
        app.log.append("pairs", rows[:2])
        app.log.append("pairs", rows[2:])
        app.catch_up()
        assert {letter.offset for letter in app.dead_letters()} == {0, 3, 6}
        assert {row["id"] for row in app.read("ratio").to_pylist()} == {1, 2, 4, 5}
        assert app.verify("ratio").equal
        assert app.verify("count").equal


def test_a_good_record_is_not_set_aside_with_a_bad_one_of_its_commit(tmp_path: Path) -> None:
    with App("ratios", log=tmp_path / "log") as app:
        app.topic("t", "id bigint, h int", key="id")
        app.topic("u", "id bigint, v int", key="id")
        sql = "SELECT t.id, 100 / (t.h - u.v) AS ratio FROM t JOIN u ON t.id = u.id"
        app.view("ratio", sql, on_error="dead_letter")
        app.log.append("t", [{"id": 1, "h": 5}, {"id": 2, "h": 5}])
        app.log.append("u", [{"id": 1, "v": 3}])
        app.catch_up()
        with app.log.commit() as commit:
            # When the commit is halved, the first half has a pair that the log never had.
            commit.append("t", [{"id": 1, "h": 3}, {"id": 9, "h": 1}])
            commit.append("u", [{"id": 1, "v": 2}, {"id": 2, "v": 5}])
        app.catch_up()
        assert [(letter.topic, letter.offset) for letter in app.dead_letters()] == [("u", 2)]
        assert app.read("ratio").to_pylist() == [{"id": 1, "ratio": 100.0}]
        assert app.verify("ratio").equal


def test_a_view_that_fails_does_so_even_if_another_has_set_a_record_of_its_commit_aside(tmp_path: Path) -> None:
    with ratios(tmp_path, "dead_letter") as app:
        app.view("inverse", "SELECT id, b div a AS inverse FROM pairs")
        app.log.append("pairs", [{"id": 1, "a": 1, "b": 0}, {"id": 2, "a": 0, "b": 1}])
        with pytest.raises(RecordFailed) as caught:
            app.catch_up()
        assert (caught.value.view, caught.value.offset) == ("inverse", 1)
        assert app.dead_letters() == []


def test_a_function_in_python_is_called_with_its_own_rows_only(tmp_path: Path) -> None:
    def no_nulls(values: pa.Array) -> pa.Array:
        assert values.null_count == 0
        return pc.add(values, 1)

    with App("functions", log=tmp_path / "log") as app:
        app.topic("numbers", "n bigint")
        app.topic("words", "word string")
        app.function("next_number", no_nulls, "bigint")
        app.view("nexts", "SELECT n, next_number(n) AS next FROM numbers")
        app.view("lengths", "SELECT word, length(word) AS n FROM words")
        app.log.append("numbers", [{"n": 1}, {"n": 2}])
        app.log.append("words", [{"word": "a"}])
        app.catch_up()
        assert sorted(row["next"] for row in app.read("nexts").to_pylist()) == [2, 3]
        assert verified(app)


def test_a_record_on_which_a_function_raises_is_set_aside(tmp_path: Path) -> None:
    def checked(values: pa.Array) -> pa.Array:
        if 13 in values.to_pylist():
            raise ValueError("unlucky")
        return values

    with App("functions", log=tmp_path / "log") as app:
        app.topic("numbers", "n bigint")
        app.function("checked", checked, "bigint")
        app.view("lucky", "SELECT checked(n) AS n FROM numbers", on_error="dead_letter")
        app.log.append("numbers", [{"n": 12}, {"n": 13}, {"n": 14}])
        app.catch_up()
        assert sorted(row["n"] for row in app.read("lucky").to_pylist()) == [12, 14]
        (letter,) = app.dead_letters()
        assert (letter.offset, letter.reason) == (1, "Function 'checked' raised ValueError: unlucky.")


def test_a_run_ends_when_it_is_told_to(app: App) -> None:
    trade(app, random.Random(6), 2)
    seen: list[int] = []

    def stop(progress: Any) -> None:
        seen.append(progress.batch)
        if progress.caught_up:
            app.stop()

    app.run(stop)
    assert seen
    assert verified(app)
