"""Case files: topics, steps of changes, and views, each with the rows that it has after the last step.

    # Lines that begin with a hash are comments.
    topic orders (id bigint, customer string, amount decimal(8,2)) key id
    topic clicks (url string) partitions 2

    step Two orders arrive
    orders + {"id": 1, "customer": "ann", "amount": "10.00"}
    orders + {"id": 2, "customer": "bob", "amount": "2.50"}
    commit
    clicks + {"url": "a"}

    step One is deleted
    orders - {"id": 2}

    view total
    SELECT sum(amount) AS total FROM orders
    =>
    | total |
    | 10.00 |

A step is one batch. Its lines are one commit over all its topics; `commit` begins another one, and
`tick 2026-01-01 12:00:00` is one that sets the clock of the log. In the table, after the
names of the columns, rows may stand in any order. Raw Spark and DuckDB give the same table, or a remark says why not:

    view last (open: two orders of one moment)
    view parts (duckdb: casts round)
    view both (spark: fails on a union of subqueries)

SQL leaves the answer of an *open* view to the engine, and raw Spark gives several answers. DuckDB gives another answer
to the second view, and Spark fails on the third one. In files of what is refused, instead of the table there is

    refused UnsupportedQuery
    The message, in one line.
    hint: The hint, if there is one.

which is about the view above it and all views since the last refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TICKS = "headwater.clock"
"""The topic with the ticks of the clock."""

_TOPIC = re.compile(r"topic (\S+) \((.*)\)(?: key ([\w, ]+?))?(?: partitions (\d+))?")
_CHANGE = re.compile(r"(\S+) ([+-]) (\{.*\})")
_VIEW = re.compile(r"view (\w+)(?: \((open|duckdb|spark): (.+)\))?")
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class TopicLine:
    name: str
    schema: str
    key: tuple[str, ...] | None
    partitions: int


@dataclass(frozen=True, slots=True)
class Change:
    """A record that is appended, or a key that is deleted."""

    topic: str
    deleted: bool
    row: dict[str, Any]


@dataclass(slots=True)
class Step:
    """The commits of one batch."""

    title: str
    commits: list[list[Change]] = field(default_factory=lambda: [[]])


@dataclass(slots=True)
class View:
    name: str
    sql: str
    expected: list[list[str]] | None = None
    """The table as it is written, the names of the columns first; None if there is none."""
    open: str = ""
    """What SQL leaves to the engine, so that there are several right answers; empty if there is one."""
    duckdb: str = ""
    """Why DuckDB's answer is another one; empty if it is not."""
    spark: str = ""
    """Why raw Spark gives no answer; empty if it does."""

    @property
    def table(self) -> list[list[str]]:
        """What is expected: the names of the columns, and then the rows, sorted."""
        names, *rows = self.expected or [[]]
        return [names, *sorted(rows)]


@dataclass(slots=True)
class Refusal:
    """Views that are refused together, and what the error says."""

    views: list[View]
    error: str
    message: str
    hint: str


@dataclass(slots=True)
class CaseFile:
    name: str
    topics: list[TopicLine] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def read(path: Path) -> CaseFile:
    return parse(path.stem, path.read_text())


def parse(name: str, text: str) -> CaseFile:
    """The cases of a file. Raises `ValueError` with the line that is none."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    file, waiting = CaseFile(name), list[View]()
    for block in _blocks(lines):
        first, *rest = block
        word = first.split(" ")[0]
        if word == "topic":
            file.topics += [_topic(line) for line in block]
        elif word == "step":
            file.steps.append(_step(first, rest))
        elif word == "view":
            view, refusal = _view(first, rest)
            waiting.append(view)
            if refusal is not None:
                file.refusals.append(Refusal(waiting, *refusal))
                waiting = []
            elif view.expected is not None:
                file.views += waiting
                waiting = []
        else:
            raise ValueError(f"{name}: a block begins with topic, step or view, not with {first!r}")
    file.views += waiting
    return file


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines that belong together: up to an empty line, or up to the next view or step."""
    block: list[str] = []
    for line in lines:
        if block and (not line.strip() or line.startswith(("view ", "step "))):
            yield block
            block = []
        if line.strip():
            block.append(line.rstrip())
    if block:
        yield block


def _topic(line: str) -> TopicLine:
    found = _TOPIC.fullmatch(line)
    if found is None:
        raise ValueError(f"not a topic: {line!r}")
    key = tuple(re.split(r",\s*", found[3])) if found[3] else None
    return TopicLine(found[1], found[2], key, int(found[4] or 1))


def _step(first: str, lines: Sequence[str]) -> Step:
    step = Step(first.removeprefix("step "))
    for line in lines:
        if line == "commit":
            step.commits.append([])
            continue
        if line.startswith("tick "):
            at = datetime.fromisoformat(line.removeprefix("tick ")).replace(tzinfo=UTC)
            step.commits += [[Change(TICKS, deleted=False, row={"at": at})], []]
            continue
        found = _CHANGE.fullmatch(line)
        if found is None:
            raise ValueError(f"not a change: {line!r}")
        step.commits[-1].append(Change(found[1], found[2] == "-", json.loads(found[3])))
    return step


def _view(first: str, lines: Sequence[str]) -> tuple[View, tuple[str, str, str] | None]:
    found = _VIEW.fullmatch(first)
    if found is None:
        raise ValueError(f"not the name of a view: {first!r}")
    end = next((at for at, line in enumerate(lines) if line == "=>" or line.startswith("refused ")), len(lines))
    view, rest = View(found[1], "\n".join(lines[:end])), lines[end:]
    if found[2]:
        setattr(view, found[2], found[3])
    if rest and rest[0] == "=>":
        view.expected = [cells(line) for line in rest[1:]]
    elif rest:
        hint = next((line.removeprefix("hint: ") for line in rest if line.startswith("hint: ")), "")
        return view, (rest[0].removeprefix("refused "), rest[1], hint)
    return view, None


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    _, *found, _ = _CELL.split(line)
    return [cell.strip() for cell in found]
