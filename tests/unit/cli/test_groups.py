"""Groups and their lag are shown, and an alarm is an exit code and words."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.model.position import Position
from tests.unit.cli.conftest import Run


@pytest.fixture
def behind(log: EmbeddedLog) -> EmbeddedLog:
    """Group `billing` has read 1 of 3 records of partition 0, and none of 5 of partition 1."""
    log.append("orders", [{"id": 1}], partition=0)
    with log.consumer("orders", group="billing") as consumer:
        assert consumer.poll(timedelta(seconds=10)) is not None
        consumer.commit()
    log.append("orders", [{"id": 2}, {"id": 3}], partition=0)
    log.append("orders", [{"id": number} for number in range(5)], partition=1)
    return log


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("groups", "list"), "The log has no consumer groups yet.\n"),
        (("lag",), "The log has no followers yet: neither consumer groups nor pipelines.\n"),
    ],
)
@pytest.mark.usefixtures("log")
def test_a_log_without_groups(headwater: Run, directory: Path, command: tuple[str, ...], said: str) -> None:
    ran = headwater("log", *command, directory)
    assert (ran.code, ran.out, ran.err) == (0, "", said)
    assert headwater("log", *command, directory, "--json").out == ""


@pytest.mark.usefixtures("behind")
def test_groups_are_listed(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "groups", "list", directory)
    heading, row = (line.split() for line in ran.out.splitlines())
    assert heading == ["group", "topics", "partitions", "members", "behind", "bytes"]
    assert row[:5] == ["billing", "orders", "2", "0", "7"]
    (group,) = headwater("log", "groups", "list", directory, "--json").objects()
    assert (group["group"], group["topics"], group["members"], group["records"]) == ("billing", ["orders"], [], 7)


@pytest.mark.usefixtures("behind")
def test_lag_is_shown_by_partition(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "lag", directory, "billing")
    assert (ran.code, ran.err) == (0, "")
    _, first, second = (line.split() for line in ran.out.splitlines())
    assert first[:7] == ["billing", "group", "orders", "0", "1", "3", "2"]
    assert second[:7] == ["billing", "group", "orders", "1", "0", "5", "5"]
    assert [each["alarms"] for each in headwater("log", "lag", directory, "--json").objects()] == [[], []]


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--alarm-records", "4"), ["5 records behind (limit 4)"]),
        (("--alarm-bytes", "1"), ["bytes behind (limit 1)"] * 2),
        (("--alarm-age", "0s"), ["s behind (limit 0 s)"] * 2),
        (("--alarm-records", "5", "--alarm-bytes", "1GiB", "--alarm-age", "1h"), []),
    ],
)
def test_an_alarm_is_an_exit_code_and_words(
    headwater: Run, directory: Path, options: tuple[str, ...], words: list[str]
) -> None:
    ran = headwater("log", "lag", directory, *options)
    assert ran.code == (3 if words else 0)
    alarms = ran.err.splitlines()
    assert len(alarms) == len(words)
    for line, wanted in zip(alarms, words, strict=True):
        assert line.startswith("alarm: group billing, topic orders, partition ")
        assert line.endswith(wanted)
    scripts = headwater("log", "lag", directory, "--json", *options)
    assert scripts.code == ran.code
    assert sum(len(each["alarms"]) for each in scripts.objects()) == len(words)


def test_records_that_were_missed_raise_an_alarm_in_any_case(
    headwater: Run, directory: Path, behind: EmbeddedLog
) -> None:
    behind.seal("orders")
    behind.alter("orders", retention_age="1000d")
    behind.set_max_bytes(1)
    behind.upkeep()
    ran = headwater("log", "lag", directory)
    assert ran.code == 3
    assert "records were deleted before they were read" in ran.err


@pytest.mark.parametrize(("given", "code"), [("1%", 3), ("0.01", 3), ("200%", 0)])
def test_the_risk_of_losing_records_is_a_limit_of_your_own(
    headwater: Run, directory: Path, behind: EmbeddedLog, given: str, code: int
) -> None:
    size = sum(segment.bytes for segment in behind.segments("orders"))
    behind.alter("orders", retention_bytes=size, hold_bytes_max=0)
    ran = headwater("log", "lag", directory, "--alarm-risk", given)
    assert ran.code == code
    assert ("of the retention used up" in ran.err) == (code == 3)


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nobody",), "There is no consumer group 'nobody'."),
        (("--alarm-risk", "much"), "'much' is not a share of the retention."),
        (("--alarm-risk", "0%"), "'0%' is not a share of the retention."),
        (("--alarm-risk", "80"), "hint: Write 80% if you mean percent."),
        (("--alarm-age", "5"), "'5' is not a duration."),
    ],
)
def test_a_wrong_question_is_refused(
    headwater: Run, directory: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = headwater("log", "lag", directory, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


@pytest.mark.usefixtures("behind")
def test_pipelines_are_shown_and_can_be_released(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    log.followers.hold("shop/1", "pipeline", Position.parse("1"), ["orders"])
    ran = headwater("log", "lag", directory, "shop/1")
    assert [line.split()[:4] for line in ran.out.splitlines()[1:]] == [
        ["shop/1", "pipeline", "orders", "0"],
        ["shop/1", "pipeline", "orders", "1"],
    ]
    assert "There is no follower 'shop/2'." in headwater("log", "release", directory, "shop/2", "--yes").err
    declined = headwater("log", "release", directory, "shop/1", answer="n\n")
    assert declined.code == 1
    assert "Pipeline shop/1 reads orders. Remove it?" in declined.err
    released = headwater("log", "release", directory, "shop/1", "--yes")
    assert (released.code, released.err) == (0, "Nothing is kept for shop/1 anymore.\n")
    assert log.followers.find("shop/1") is None


def offsets(log: EmbeddedLog) -> list[int]:
    return [lag.offset for lag in log.lag("billing")]


@pytest.mark.usefixtures("behind")
def test_a_group_is_shown_with_its_members(headwater: Run, directory: Path, log: EmbeddedLog) -> None:
    ran = headwater("log", "groups", "show", directory, "billing")
    assert (ran.code, ran.err) == (0, "The group has no active members.\n")
    assert [line.split()[:7] for line in ran.out.splitlines()[1:]] == [
        ["billing", "group", "orders", "0", "1", "3", "2"],
        ["billing", "group", "orders", "1", "0", "5", "5"],
    ]
    with log.consumer("ord*", group="billing", member="worker-1"):
        ran = headwater("log", "groups", "show", directory, "billing")
        assert ran.err == "1 active member:\n"
        assert ran.out.splitlines()[1].split()[:2] == ["worker-1", "orders"]
        (shown,) = headwater("log", "groups", "show", directory, "billing", "--json").objects()
    (member,) = shown["members"]
    assert (member["name"], member["topics"]) == ("worker-1", ["orders"])
    assert 0 < member["lease_left"] <= 10
    assert [each["offset"] for each in shown["partitions"]] == [1, 0]


def test_a_dry_run_shows_from_where_to_where(headwater: Run, directory: Path, behind: EmbeddedLog) -> None:
    ran = headwater("log", "groups", "reset", directory, "billing", "--to", "latest", "--dry-run")
    assert (ran.code, ran.err) == (0, "Nothing was changed: this was a dry run.\n")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["topic", "partition", "from", "to", "records"],
        ["orders", "0", "1", "3", "2", "skipped"],
        ["orders", "1", "0", "5", "5", "skipped"],
    ]
    assert offsets(behind) == [1, 0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to", "earliest"), [0, 0]),
        (("--to", "latest"), [3, 5]),
        (("--to", "2", "--topic", "orders"), [2, 2]),
        (("--to", "2", "--partition", "0"), [2, 0]),
        (("--to", "position:2"), [1, 0]),
        (("--to", "position:3"), [3, 0]),
        (("--to", "1d"), [0, 0]),
        (("--to", "2100-01-01T00:00:00Z"), [3, 5]),
    ],
)
def test_a_group_is_reset(
    headwater: Run, directory: Path, behind: EmbeddedLog, options: tuple[str, ...], expected: list[int]
) -> None:
    ran = headwater("log", "groups", "reset", directory, "billing", *options, "--yes")
    assert (ran.code, ran.err) == (0, "Group billing continues from there.\n")
    assert offsets(behind) == expected
    again = headwater("log", "groups", "reset", directory, "billing", *options, "--yes", "--json").objects()
    assert all(move["before"] == move["after"] for move in again)


def test_a_reset_asks_first(headwater: Run, directory: Path, behind: EmbeddedLog) -> None:
    command = ("log", "groups", "reset", directory, "billing", "--to", "latest")
    ran = headwater(*command, answer="n\n")
    assert ran.code == 1
    assert "orders" in ran.out
    assert "Move group billing in 2 partitions?" in ran.err
    assert offsets(behind) == [1, 0]
    assert headwater(*command, answer="y\n").code == 0
    assert offsets(behind) == [3, 5]


def test_members_stand_in_the_way_unless_forced(headwater: Run, directory: Path, behind: EmbeddedLog) -> None:
    reset = ("log", "groups", "reset", directory, "billing", "--to", "earliest", "--yes")
    delete = ("log", "groups", "delete", directory, "billing", "--yes")
    with behind.consumer("orders", group="billing", member="worker-1"):
        for command in (reset, delete):
            ran = headwater(*command)
            assert ran.code == 2
            assert "Consumer group 'billing' has an active member: worker-1." in ran.err
            assert "add --force" in ran.err
        assert headwater(*reset, "--force").code == 0
        assert offsets(behind) == [0, 0]
        assert headwater(*delete, "--force").code == 0
        assert behind.groups() == []


def test_a_group_is_deleted_when_the_user_agrees(headwater: Run, directory: Path, behind: EmbeddedLog) -> None:
    command = ("log", "groups", "delete", directory, "billing")
    ran = headwater(*command, answer="n\n")
    assert ran.code == 1
    assert "Group billing reads orders. Delete its offsets for good?" in ran.err
    assert behind.groups() == ["billing"]
    ran = headwater(*command, answer="y\n")
    assert ran.code == 0
    assert ran.err.endswith("Deleted group billing.\n")
    assert behind.groups() == []


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "nobody"), "There is no consumer group 'nobody'."),
        (("delete", "nobody", "--yes"), "There is no consumer group 'nobody'."),
        (("reset", "nobody", "--to", "earliest"), "There is no consumer group 'nobody'."),
        (("reset", "billing", "--to", "soon"), "'soon' is not a place to begin."),
        (("reset", "billing", "--to", "4", "--partition", "0"), "has offsets 0 to 3, not 4"),
        (("reset", "billing", "--to", "latest", "--partition", "0"), "--partition needs an offset."),
        (("reset", "billing", "--to", "latest", "--topic", "none"), "There is no topic 'none'."),
        (("reset", "billing", "--to", "position:99"), "not yet at 99"),
    ],
)
def test_a_wrong_move_is_refused(headwater: Run, directory: Path, arguments: tuple[str, ...], complaint: str) -> None:
    command, *others = arguments
    ran = headwater("log", "groups", command, directory, *others)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
