"""What holds for every sink: the target has each change of the view, in order, whatever fails in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.engine.reading import Reader
from headwater.engine.relational import followers
from headwater.engine.relational import store as store_module
from headwater.engine.sinks.port import Start
from headwater.engine.sinks.progress import Progress, ProgressFile
from headwater.errors import StorageFailed
from tests.contract.sinks.targets import Target
from tests.unit.engine.samples import Driver
from tests.webhooks.receiver import until
from tests.webhooks.sending import Feeding, publish


@contextmanager
def feeding(directory: Path, target: Target, start: Start = "content") -> Iterator[Feeding]:
    made = Feeding(directory, target.sink(), start)
    try:
        yield made
    finally:
        made.stop()


def content(directory: Path) -> dict[str, int]:
    """What the view holds."""
    with Reader(directory) as reader:
        return dict(Counter(reader.read(["v"]).tables["v"]["text"].to_pylist()))


def test_the_content_comes_first_and_then_every_change(directory: Path, driver: Driver, target: Target) -> None:
    with feeding(directory, target) as made:
        until(lambda: target.rows() == {"one": 1, "two": 2})
        publish(driver, ("two", -1), ("three", 1))
        until(lambda: target.rows() == content(directory) == {"one": 1, "two": 1, "three": 1})
        until(lambda: made.status().lag == 0)
        assert (made.status().status, made.at(), made.status().error) == ("running", 2, None)


def test_only_what_changes_from_now_on_comes_if_that_is_asked_for(
    directory: Path, driver: Driver, target: Target
) -> None:
    with feeding(directory, target, "now") as made:
        until(lambda: made.at() == 1)
        publish(driver, ("two", -1), ("three", 1))
        until(lambda: target.rows() == {"two": -1, "three": 1})


def test_a_new_process_continues_where_the_target_is(directory: Path, driver: Driver, target: Target) -> None:
    for number in range(4):
        with feeding(directory, target) as made:
            until(lambda: made.at() == driver.batch)
        publish(driver, (f"row {number}", 1))
    with feeding(directory, target):
        until(lambda: target.rows() == content(directory))


@pytest.mark.parametrize("start", ["now", "content"])
def test_what_fails_comes_again(directory: Path, driver: Driver, target: Target, start: Start) -> None:
    with feeding(directory, target, start) as made:
        until(lambda: made.at() == 1)
        target.fail(3)
        publish(driver, ("three", 1))
        publish(driver, ("four", 1))
        until(lambda: made.at() == 3)
        assert made.status().failures == 3
        assert (made.status().status, made.status().error) == ("running", None)
    expected = content(directory) if start == "content" else {"three": 1, "four": 1}
    assert target.rows() == expected


def test_a_target_that_refuses_is_left_alone_until_the_next_run(
    directory: Path, driver: Driver, target: Target
) -> None:
    with feeding(directory, target) as made:
        until(lambda: made.at() == 1)
        target.refuse()
        publish(driver, ("three", 1))
        until(made.gave_up)
        assert (made.status().status, made.status().lag) == ("paused", 1)
        assert made.status().error
    target.accept()
    with feeding(directory, target) as made:
        until(lambda: target.rows() == content(directory))
        until(lambda: made.status().status == "running")


def test_a_crash_before_the_progress_is_written_down_loses_nothing(
    directory: Path, driver: Driver, target: Target
) -> None:
    """The target has the change, and nobody has noted it: it comes again, unless the target knows."""
    with feeding(directory, target) as made:
        until(lambda: made.at() == 1)
    before = ProgressFile(directory, "out").load("v")
    publish(driver, ("three", 1))
    with feeding(directory, target) as made:
        until(lambda: made.at() == 2)
    ProgressFile(directory, "out").save(before)
    publish(driver, ("three", -1), ("four", 1))
    with feeding(directory, target) as made:
        until(lambda: made.at() == 3)
    held = target.rows()
    assert {text: held.get(text, 0) for text in ("one", "two", "four")} == {"one": 1, "two": 2, "four": 1}
    if target.keeps_position:
        assert held == content(directory)


def test_one_process_feeds_a_target_and_the_next_one_takes_over(
    directory: Path, driver: Driver, target: Target
) -> None:
    with feeding(directory, target) as first:
        until(lambda: first.at() == 1)
        with feeding(directory, target):
            for number in range(5):
                publish(driver, (f"row {number}", 1))
            until(lambda: first.at() == 6)
            first.stop()
            publish(driver, ("last", 1))
            until(lambda: target.rows() == content(directory))


@pytest.mark.parametrize("start", ["now", "content"])
def test_changes_that_are_not_kept_any_more_are_a_gap(
    directory: Path, driver: Driver, target: Target, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    with feeding(directory, target, start) as made:
        until(lambda: made.at() == 1)
    # As if the application had been run without this sink meanwhile.
    driver.store.release({})
    for number in range(30):
        publish(driver, (f"row {number}", 1))
    driver.store.collect()
    with feeding(directory, target, start) as made:
        until(lambda: made.at() == 31)
        publish(driver, ("last", 1))
        until(lambda: target.rows().get("last") == 1)
        assert "starts over" in made.said[0]
    assert target.rows() == (content(directory) if start == "content" else {"last": 1})


@pytest.mark.parametrize("bytes_max", [1 << 20, 0], ids=["change by change", "squashed"])
@pytest.mark.parametrize("start", ["now", "content"])
def test_a_target_that_was_away_for_long_gets_what_it_missed(
    directory: Path,
    driver: Driver,
    target: Target,
    start: Start,
    bytes_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Longer than the history is kept: nothing begins again, and what came and went meanwhile does not come."""
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    monkeypatch.setattr(store_module, "CHANGES_BYTES_MAX", bytes_max)
    monkeypatch.setattr(followers, "HELD_CHANGES", 2)
    with feeding(directory, target, start) as made:
        until(lambda: made.at() == 1)
        publish(driver, ("seen", 1))
        until(lambda: made.at() == 2)
    for number in range(30):
        publish(driver, (f"row {number}", 1), *([(f"row {number - 1}", -1)] if number else []))
        driver.store.collect()
    with driver.store.read() as look:
        kept = look.changes(driver.generation, "v", 2)
    # What it may be taking, the squashed rest, and the history.
    assert len(kept) == 30 if bytes_max else len(kept) <= 2 + 1 + 3
    with feeding(directory, target, start) as made:
        until(lambda: made.at() == driver.batch)
        assert made.said == []
        publish(driver, ("last", 1))
        until(lambda: target.rows().get("last") == 1)
    expected = content(directory) if start == "content" else {"seen": 1, "row 29": 1, "last": 1}
    assert {text: weight for text, weight in target.rows().items() if weight} == expected


def test_nothing_is_delivered_that_cannot_be_written_down(
    directory: Path, driver: Driver, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target.keeps_position:
        return
    save = ProgressFile.save
    full = True

    def fail(self: ProgressFile, progress: Progress) -> None:
        if full:
            raise StorageFailed("there", "it is full")
        save(self, progress)

    with feeding(directory, target, "now") as made:
        until(lambda: made.at() == 1)
        monkeypatch.setattr(ProgressFile, "save", fail)
        publish(driver, ("three", 1))
        until(lambda: made.said)
        full = False
        until(lambda: made.at() == 2)
    assert target.rows() == {"three": 1}
