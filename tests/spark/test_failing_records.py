"""Whatever an expression raises on a value is the failure of that record, not of headwater."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.app import App
from headwater.errors import RecordFailed

EXPRESSIONS = {
    "raised": "raise_error(s)",
    "repeated_key": "cast(map_from_arrays(array(s, s), array(1, 2)) AS string)",
    "too_large": "size(array_repeat(s, int(id + 2147483646)))",
    "unknown_format": "format_string(s, id)",
    "not_xml": "xpath_string(s, 'a/c')",
    "no_mode": "aes_decrypt(unhex('6E'), '0000111122223333', s)",
}
"""One for each kind of error that Spark raises while it evaluates: with a state of data, with another state, with none,
or as an exception of Java's libraries."""


def test_a_record_that_fails_in_any_way_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    with App("odd", log=tmp_path / "log", master="local[2]") as app:
        for name, expression in EXPRESSIONS.items():
            app.topic(name, "id bigint, s string", key="id")
            app.view(f"v_{name}", f"SELECT id, {expression} AS v FROM {name}", on_error="dead_letter")
        for name in EXPRESSIONS:
            app.log.append(name, [{"id": 1, "s": "%"}])
        app.catch_up()
        aside = {letter.topic: letter.reason for letter in app.dead_letters()}
        assert set(aside) == set(EXPRESSIONS)
        assert all(reason.strip() for reason in aside.values())
        assert all(app.read(f"v_{name}").num_rows == 0 for name in EXPRESSIONS)


@pytest.mark.parametrize("name", ["raised", "not_xml"])
def test_otherwise_it_is_named(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with App("odd", log=tmp_path / "log", master="local[2]") as app:
        app.topic("t", "id bigint, s string", key="id")
        app.view("v", f"SELECT id, {EXPRESSIONS[name]} AS v FROM t")
        app.log.append("t", [{"id": 1, "s": "%"}])
        with pytest.raises(RecordFailed) as caught:
            app.catch_up()
        assert (caught.value.topic, caught.value.offset) == ("t", 0)
