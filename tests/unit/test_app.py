"""An application without Spark: what it closes, and the functions that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headwater as hw


def test_a_log_that_was_handed_over_stays_open(tmp_path: Path) -> None:
    with hw.open(tmp_path / "data") as log:
        with hw.App("shop", log=log) as app:
            app.topic("orders", "id bigint")
        log.append("orders", [{"id": 1}])
        assert log.scan("orders").num_rows == 1


def test_a_log_that_the_application_opened_is_closed(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "data") as app:
        app.topic("orders", "id bigint")
    with pytest.raises(hw.errors.UsageError):
        app.log.append("orders", [{"id": 1}])


def test_an_application_evolves_its_own_topics_and_leaves_what_it_does_not_name(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "data") as app:
        app.topic("orders", "id int", key="id", partitions=2)
        app.log.alter("orders", retention_bytes=1000)
    with hw.App("shop", log=tmp_path / "data") as app:
        made = app.topic("orders", "id bigint, note string", key="id", segment_bytes_max=500)
        assert (made.schema.names, made.partitions) == (["id", "note"], 2)
        assert (made.settings.retention_bytes, made.settings.segment_bytes_max) == (1000, 500)
        with pytest.raises(hw.errors.TopicDiffers, match="key: id in the log, none in the application"):
            app.topic("orders", "id bigint, note string")


def test_a_function_is_added_by_a_call_or_by_a_decorator(tmp_path: Path) -> None:
    def doubled(numbers: pa.Array) -> pa.Array:
        return pc.multiply(numbers, 2)

    with hw.App("shop", log=tmp_path / "data") as app:
        assert app.function("twice", doubled, "bigint") is doubled
        assert app.function(returns="bigint")(doubled) is doubled
        assert app.function("double", returns="int")(doubled) is doubled
        added = [(each.name, each.function, each.returns) for each in app._functions]
    assert added == [("twice", doubled, "bigint"), ("doubled", doubled, "bigint"), ("double", doubled, "int")]


def test_a_function_of_any_number_of_arguments_is_refused(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "data") as app, pytest.raises(hw.errors.UsageError):

        @app.function(returns="bigint")
        def summed(*numbers: pa.Array) -> pa.Array:
            return numbers[0]


def test_reading_an_unknown_view_is_refused_at_once(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "data") as app, pytest.raises(hw.errors.UnknownView):
        app.read("revenue")


@pytest.mark.parametrize("wrong", [5, None, ["https://example.com"]])
def test_a_connector_is_a_url_or_something_that_can_be_called(tmp_path: Path, wrong: Any) -> None:
    with hw.App("shop", log=tmp_path / "data") as app:
        with pytest.raises(hw.errors.UsageError, match="cannot write to"):
            app.sink("to", view="revenue", to=wrong)
        with pytest.raises(hw.errors.UsageError, match="cannot read from"):
            app.source("shop", wrong)


def test_the_url_of_an_unknown_connector_is_not_shown(tmp_path: Path) -> None:
    with hw.App("shop", log=tmp_path / "data") as app, pytest.raises(hw.errors.UsageError) as caught:
        app.source("shop", "mysql://user:hush@db.example.com/shop")
    assert "hush" not in f"{caught.value} {caught.value.hint}"
    assert "postgresql://" in caught.value.hint
