"""Logs and topics are made, listed, described, changed and deleted from the command line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from tests.unit.cli.conftest import SCHEMA, Run


def test_init_makes_a_log_and_leaves_one_alone(headwater: Run, directory: Path) -> None:
    first = headwater("log", "init", directory)
    assert (first.code, first.out) == (0, "")
    assert first.err.startswith(f"Created a log in {directory}.\nhint: ")
    with EmbeddedLog(directory, create=False, upkeep=False) as log:
        log.create("orders", SCHEMA)
    again = headwater("log", "init", directory)
    assert (again.code, again.err) == (0, f"There is a log in {directory} already.\n")
    with EmbeddedLog(directory, create=False, upkeep=False) as log:
        assert [topic.name for topic in log.topics()] == ["orders"]


def test_init_does_not_touch_a_directory_with_other_files(headwater: Run, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    ran = headwater("log", "init", tmp_path)
    assert ran.code == 2
    assert "contains other files" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_init_where_nothing_can_be_made(headwater: Run) -> None:
    ran = headwater("log", "init", "/proc/nowhere")
    assert ran.code == 1
    assert ran.err.startswith("error: The directory /proc/nowhere cannot be created: ")
    assert ran.err.endswith("hint: Name a directory that you may write to.\n")


def test_create_takes_every_setting(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    options = "--key a --key b --partitions 3 --event-time at --retention-age 7d --retention-bytes 1GiB"
    options += (
        " --dead-letter dead --segment-bytes-max 1MiB --segment-age-max 1h --tombstone-grace 90m --cleanup delete"
    )
    ran = headwater("log", "create", directory, "t", "a int, b int, at timestamp", *options.split())
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "Created topic t with 3 partitions: a int, b int, at timestamp.\n"
    topic = log.topic("t")
    assert (topic.key, topic.partitions, topic.event_time) == (("a", "b"), 3, "at")
    settings = topic.settings
    assert (settings.retention_age, settings.retention_bytes) == (timedelta(days=7), 1 << 30)
    assert (settings.cleanup, settings.dead_letter) == ("delete", "dead")
    assert (settings.segment_bytes_max, settings.segment_age_max) == (1 << 20, timedelta(hours=1))
    assert settings.tombstone_grace == timedelta(minutes=90)


def test_create_of_a_topic_that_exists(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    same = ("log", "create", directory, "orders", SCHEMA, "--key", "id", "--partitions", "2", "--event-time", "at")
    assert headwater(*same).code == 2
    content = headwater(*same, "--exist-ok")
    assert (content.code, content.err) == (0, "Topic orders already exists with the same definition.\n")
    other = headwater("log", "create", directory, "orders", "id int", "--exist-ok")
    assert other.code == 2
    assert "hint: `headwater log describe` shows it, `headwater log alter` changes it." in other.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("t", "a integr"), "integr"),
        (("../t", "a int"), "is not a valid topic name"),
        (("t", "a int", "--key", "b"), "The key column 'b' is not in the schema."),
        (("t", "a int", "--retention-age", "soon"), "'soon' is not a duration."),
        (("t", "a int", "--retention-bytes", "1G"), "'1G' is not a size."),
        (("t", "a int", "--cleanup", "compact"), "A topic without a key cannot be compacted."),
    ],
)
def test_create_says_what_is_wrong(
    headwater: Run, directory: Path, log: EmbeddedLog, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = headwater("log", "create", directory, *arguments)
    assert ran.code == 2
    assert complaint in ran.err
    assert "hint: " in ran.err
    assert [topic.name for topic in log.topics()] == ["orders"]


def test_topics_are_listed(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.create("customers", "id int", key="id", cleanup="compact")
    log.append("orders", [{"id": number} for number in range(1200)])
    ran = headwater("log", "topics", directory)
    assert (ran.code, ran.err) == (0, "")
    heading, customers, orders = (line.split() for line in ran.out.splitlines())
    assert heading == ["topic", "key", "partitions", "records", "bytes", "kept"]
    assert customers == ["customers", "id", "1", "0", "0", "B", "newest", "per", "key"]
    assert orders[:4] == ["orders", "id", "2", "1,200"]
    objects = headwater("log", "topics", directory, "--json").objects()
    assert [(each["topic"], each["records"], each["partitions"]) for each in objects] == [
        ("customers", 0, 1),
        ("orders", 1200, 2),
    ]


def test_topics_shows_the_limit_of_the_whole_log(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    assert headwater("log", "topics", directory, "--json").objects()[0]["log_bytes_max"] is None
    log.set_max_bytes(10 << 30)
    assert headwater("log", "topics", directory).err.startswith("The log keeps at most 10 GiB in total")
    assert headwater("log", "topics", directory, "--json").objects()[0]["log_bytes_max"] == 10 << 30


def test_a_log_without_topics_says_what_to_do(headwater: Run, directory: Path) -> None:
    EmbeddedLog(directory, upkeep=False).close()
    ran = headwater("log", "topics", directory)
    assert (ran.code, ran.out) == (0, "")
    assert "hint: `headwater log create" in ran.err
    assert headwater("log", "topics", directory, "--json").out == ""


def test_describe_shows_columns_settings_partitions_and_history(
    headwater: Run, directory: Path, log: EmbeddedLog
) -> None:
    log.append("orders", [{"id": 1}, {"id": 2}], partition=1)
    log.alter("orders", schema=SCHEMA + ", note string", retention_age=timedelta(days=7))
    ran = headwater("log", "describe", directory, "orders")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["id", "bigint", "key"] in lines
    assert ["at", "timestamp", "event", "time"] in lines
    assert ["retention-age", "7d"] in lines
    # A partition without a segment does not say where it ends.
    assert ["0", "0", "0", "0", "0", "B", "none"] in lines
    assert ["1", "0", "2", "2"] in [line[:4] for line in lines]
    assert ["0", *SCHEMA.split()] in lines


def test_describe_for_scripts(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}, {"id": 2}], partition=1)
    (page,) = headwater("log", "describe", directory, "orders", "--json").objects()
    assert (page["topic"], page["schema_history"], page["losses"]) == ("orders", [SCHEMA], [])
    empty, held = page["offsets"]
    assert (empty["first"], empty["end"], empty["segments"]) == (0, 0, {})
    assert (held["first"], held["end"], held["records"], held["segments"]) == (0, 2, 2, {"active": 1})
    (segment,) = page["segments"]
    assert (segment["partition"], segment["first"], segment["end"]) == (1, 0, 2)
    assert (directory / segment["file"]).is_file()


def test_alter_adds_columns_and_lifts_limits(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.alter("orders", retention_bytes=1000, dead_letter="dead")
    ran = headwater(
        "log", "alter", directory, "orders", "--add-column", "note string", "--add-column", "tags array<string>",
        "--retention-bytes", "none", "--retention-age", "2w", "--dead-letter", "none",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "Changed topic orders.\n")
    topic = log.topic("orders")
    assert topic.schema.names == ["id", "amount", "at", "note", "tags"]
    settings = topic.settings
    assert (settings.retention_bytes, settings.retention_age) == (None, timedelta(weeks=2))
    assert settings.dead_letter is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "There is nothing to change."),
        (("--schema", "id int", "--add-column", "b int"), "cannot be combined"),
        (("--schema", "id int"), "amount"),
        (("--partitions", "4"), "has a key"),
    ],
)
def test_alter_says_what_is_wrong(
    headwater: Run, directory: Path, log: EmbeddedLog, options: tuple[str, ...], complaint: str
) -> None:
    before = log.topic("orders")
    ran = headwater("log", "alter", directory, "orders", *options)
    assert ran.code == 2
    assert complaint in ran.err
    assert log.topic("orders") == before


@pytest.mark.parametrize(("answer", "complaint"), [("n\n", "Nothing was changed."), ("", "There was no answer")])
def test_drop_asks_first(headwater: Run, directory: Path, log: EmbeddedLog, answer: str, complaint: str) -> None:
    log.append("orders", [{"id": 1}])
    with log.consumer("orders", group="billing"):
        ran = headwater("log", "drop", directory, "orders", answer=answer)
    assert ran.code == 1
    assert complaint in ran.err
    assert [topic.name for topic in log.topics()] == ["orders"]


def test_drop_deletes_when_the_user_agrees(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}])
    ran = headwater("log", "drop", directory, "orders", answer="y\n")
    assert ran.code == 0
    assert ran.err.endswith("Deleted topic orders.\n")
    assert log.topics() == []


def test_drop_with_yes_does_not_ask(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    ran = headwater("log", "drop", directory, "orders", "--yes")
    assert (ran.code, ran.out, ran.err) == (0, "", "Deleted topic orders.\n")


def test_an_unknown_topic_is_named_with_those_there_are(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    ran = headwater("log", "describe", directory, "nope")
    assert (ran.code, ran.err) == (2, "error: There is no topic 'nope'.\nhint: Topics of this log: orders.\n")


def test_a_stream_divided_by_a_column_is_created_and_described(
    headwater: Run, directory: Path, log: EmbeddedLog
) -> None:
    options = ("--partitions", "4", "--partition-by", "user_id")
    ran = headwater("log", "create", directory, "clicks", "user_id bigint, url string", *options)
    assert (ran.code, ran.out) == (0, "")
    assert (log.topic("clicks").key, log.topic("clicks").partition_by) == ((), ("user_id",))
    (described,) = headwater("log", "describe", directory, "clicks", "--json").objects()
    assert (described["key"], described["partition_by"]) == ([], ["user_id"])
    assert any(line.split() == ["user_id", "bigint", "partition"] for line in _lines(headwater, directory, "clicks"))
    ran = headwater("log", "alter", directory, "clicks", "--partitions", "8")
    assert ran.code == 2
    assert "Topic 'clicks' is partitioned by user_id: with more partitions" in ran.err


def _lines(headwater: Run, directory: Path, topic: str) -> list[str]:
    return headwater("log", "describe", directory, topic).out.splitlines()
