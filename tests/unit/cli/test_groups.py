"""Groups and their lag are shown, and an alarm is an exit code and words."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headwater.log.embedded.log import EmbeddedLog
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


@pytest.mark.parametrize("command", ["groups", "lag"])
@pytest.mark.usefixtures("log")
def test_a_log_without_groups(headwater: Run, directory: Path, command: str) -> None:
    ran = headwater("log", command, directory)
    assert (ran.code, ran.out, ran.err) == (0, "", "The log has no consumer groups yet.\n")
    assert headwater("log", command, directory, "--json").out == ""


@pytest.mark.usefixtures("behind")
def test_groups_are_listed(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "groups", directory)
    heading, row = (line.split() for line in ran.out.splitlines())
    assert heading == ["group", "topics", "partitions", "members", "behind", "bytes"]
    assert row[:5] == ["billing", "orders", "2", "0", "7"]
    (group,) = headwater("log", "groups", directory, "--json").objects()
    assert (group["group"], group["topics"], group["members"], group["records"]) == ("billing", ["orders"], [], 7)


@pytest.mark.usefixtures("behind")
def test_lag_is_shown_by_partition(headwater: Run, directory: Path) -> None:
    ran = headwater("log", "lag", directory, "billing")
    assert (ran.code, ran.err) == (0, "")
    _, first, second = (line.split() for line in ran.out.splitlines())
    assert first[:6] == ["billing", "orders", "0", "1", "3", "2"]
    assert second[:6] == ["billing", "orders", "1", "0", "5", "5"]
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
    behind.alter("orders", retention_bytes=size)
    ran = headwater("log", "lag", directory, "--alarm-risk", given)
    assert ran.code == code
    assert ("of the retention used up" in ran.err) == (code == 3)


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nobody",), "There is no consumer group 'nobody'."),
        (("--alarm-risk", "much"), "'much' is not a part of the retention."),
        (("--alarm-risk", "0%"), "'0%' is not a part of the retention."),
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
