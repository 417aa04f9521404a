"""Lateness computed in columns against the definition read record by record, however the log is cut into batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine import lateness
from headwater.engine.lateness import COMMIT, HEADERS, RECEIVED_AT, Lateness, LateRecords, LateRule, Moments, judge
from headwater.engine.watermarks import WatermarkRule
from headwater.model.record import AMENDED
from tests.property.engine.lateness_model import Committed, Event, Model

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")), ("device", pa.string()), ("number", pa.int64()), (COMMIT, pa.int64()),
        (HEADERS, pa.map_(pa.string(), pa.string())), (RECEIVED_AT, pa.timestamp("us", tz="UTC")),
    ]
)  # fmt: skip
EVENTS = st.builds(
    Event,
    st.sampled_from(["a", "b", "c", "d", None]),
    st.none() | st.integers(0, 60) | st.integers(-3, 200),
    st.sampled_from([False] * 9 + [True]),
)
Judged = dict[int, tuple[bool, int | None]]


@st.composite
def logs(draw: st.DrawFn) -> list[Committed]:
    commits, clock = list[Committed](), draw(st.integers(0, 50))
    for number in range(1, draw(st.integers(1, 25)) + 1):
        kind = draw(st.integers(0, 9))
        tick = mark = None
        events: list[Event] = []
        if kind < 2:
            clock += draw(st.integers(1, 40))
            tick = clock
        elif kind == 2:
            mark = draw(st.integers(0, 80))
        if kind > 1:
            events = draw(st.lists(EVENTS, max_size=5))
            # A record sent twice.
            events += events[: draw(st.integers(0, 1))]
        commits.append(Committed(number * 3, tick, mark, events, number * 7))
    return commits


RULES = st.tuples(
    st.integers(0, 10), st.none() | st.integers(1, 60), st.sampled_from([0, 0, 5, 30]), st.booleans(),
    st.none() | st.integers(0, 60),
)  # fmt: skip


@given(logs(), RULES, st.data())
def test_verdicts_are_those_of_the_model_in_every_division(
    commits: list[Committed], rule: tuple[int, int | None, int, bool, int | None], data: st.DataObject
) -> None:
    delay, idle, allowance, by_producer, future_max = rule
    known = [replace(c, events=[_of(e, by_producer=by_producer) for e in c.events]) for c in commits]
    model = Model(delay, idle, allowance, future_max)
    expected = {place: (late, before) for place, (_, _, before, late) in enumerate(model.judge(known))}
    futures = [model.is_future(c, event) for c in known for event in c.events]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(commits)), max_size=4)) | {0, len(commits)})
    late_rule = LateRule(
        WatermarkRule(
            "t",
            "at",
            _time(delay),
            "device" if by_producer else None,
            None if idle is None else _time(idle),
            None if future_max is None else _time(future_max),
        ),
        _time(allowance),
    )
    found, state = Judged(), Lateness()
    for first, end in pairwise(cuts):
        before = sum(len(c.events) for c in commits[:first])
        chunk = records(commits[first:end], before)
        ticks, marks = moments(commits[first:end], "tick"), moments(commits[first:end], "mark")
        after, late = judge(late_rule, state, chunk, ticks, marks)
        late = LateRecords.from_json(json.loads(json.dumps(late.to_json())))
        dropped = late.found(chunk)
        numbers = chunk["number"].filter(pa.array(dropped.flags)).to_pylist()
        told = dict(zip(numbers, zip(dropped.late.tolist(), dropped.watermarks.tolist(), strict=True), strict=True))
        assert {number for number, (is_late, _) in told.items() if not is_late} == {
            number for number in chunk["number"].to_pylist() if futures[number]
        }
        found |= {number: told.get(number, (False, None)) for number in chunk["number"].to_pylist()}
        state = Lateness.from_json(json.loads(json.dumps(after.to_json())))
    assert {n: late for n, (late, _) in found.items()} == {n: late for n, (late, _) in expected.items()}
    assert all(found[n][1] == before for n, (late, before) in expected.items() if late)
    assert state.reached == (lateness.NEVER if model.reached is None else model.reached)
    assert (state.records, state.late) == (len(expected), sum(late for late, _ in expected.values()))
    assert state.future == sum(futures)
    amounts = [before - event.at for _, event, before, late in Model(delay, idle, allowance, future_max).judge(known)
               if late and before is not None and event.at is not None]  # fmt: skip
    assert state.late_by == max(amounts, default=0)


@pytest.mark.parametrize("cells", [1, 7])
def test_many_producers_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    chance = np.random.default_rng(cells)
    commits = [
        Committed(n, int(n * 3) if n % 4 == 0 else None, None,
                  [Event(f"p{chance.integers(9)}", int(chance.integers(n * 2, n * 2 + 30))) for _ in range(3)])
        for n in range(1, 80)
    ]  # fmt: skip
    rule = LateRule(WatermarkRule("t", "at", _time(2), "device", _time(24)))
    expected = sum(late for *_, late in Model(2, 24).judge(commits))
    monkeypatch.setattr(lateness, "_CELLS_MAX", cells)
    state, _ = judge(rule, Lateness(), records(commits, 0), moments(commits, "tick"), Moments.none())
    assert state.late == expected > 0


def test_a_rule_is_what_it_was_after_json() -> None:
    for rule in (
        LateRule(
            WatermarkRule("t", "at", timedelta(seconds=1.5), "device", timedelta(days=1), timedelta(hours=1)),
            timedelta(hours=3),
        ),
        LateRule(WatermarkRule("t", "at", timedelta(0))),
    ):
        assert LateRule.from_json("t", json.loads(json.dumps(rule.to_json()))) == rule


def records(commits: Sequence[Committed], first: int) -> pa.Table:
    """The records in another order than that of their commits, as partitions are read one after the other."""
    rows = [
        {"at": event.at, "device": event.producer, COMMIT: commit.number,
         RECEIVED_AT: commit.received, HEADERS: [(AMENDED, "true")] if event.amended else None}
        for commit in commits for event in commit.events
    ]  # fmt: skip
    for number, row in enumerate(rows, start=first):
        row["number"] = number
    return pa.Table.from_pylist(rows[::2] + rows[1::2], schema=SCHEMA)


def moments(commits: Sequence[Committed], name: str) -> Moments:
    found = [(c.number, getattr(c, name)) for c in commits if getattr(c, name) is not None]
    return Moments(*(np.array([one[part] for one in found], dtype=np.int64) for part in (0, 1)))


def _of(event: Event, *, by_producer: bool) -> Event:
    return event if by_producer else Event(None, event.at, event.amended)


def _time(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)
