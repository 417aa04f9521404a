"""What `tools/soak.py` looks at: memory, descriptors and threads of every process, files and bytes on the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

DRIVER, JAVA, DAEMON, WORKERS, QUERIES, WRITER = (
    "driver", "Java", "Spark's Python daemon", "Spark's Python workers", "query processes", "writer",
)  # fmt: skip
MIB = 1 << 20


@dataclass(slots=True)
class Held:
    """What the processes of one role hold together. PSS divides shared pages among those that share them."""

    processes: int = 0
    rss: int = 0
    pss: int = 0
    descriptors: int = 0
    threads: int = 0

    def add(self, other: Held) -> None:
        for name in Held.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Kept:
    """Files of one kind."""

    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Sample:
    """One look. `commits` are those of the log, `behind` those that the views do not have yet."""

    seconds: float
    held: dict[str, Held] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    batches: int = 0
    commits: int = 0
    behind: int = 0

    @property
    def pss(self) -> int:
        """Of all processes of the application, without the writer."""
        return sum(held.pss for role, held in self.held.items() if role != WRITER)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def look_at(process: int) -> Held:
    """What one process holds; nothing if it has ended."""
    folder, held = Path(f"/proc/{process}"), Held()
    with suppress(OSError, ValueError):
        sizes = _fields(folder / "smaps_rollup", "Rss", "Pss")
        threads = _fields(folder / "status", "Threads")
        held = Held(
            1, sizes["Rss"] * 1024, sizes["Pss"] * 1024, len(list((folder / "fd").iterdir())), threads["Threads"]
        )
    return held


def look_at_tree(process: int) -> dict[str, Held]:
    """What `headwater run` and everything below it hold, by role."""
    found: dict[str, Held] = {}
    waiting = [(process, DRIVER)]
    while waiting:
        number, role = waiting.pop()
        found.setdefault(role, Held()).add(look_at(number))
        waiting += [(child, _role(child, role)) for child in _children(number)]
    return found


def look_at_files(log: Path, application: str) -> dict[str, Kept]:
    """The files of a log and of the store of an application, by kind."""
    found: dict[str, Kept] = {}
    store = log / "pipelines" / application
    for folder, _, names in os.walk(log):
        for name in names:
            path = Path(folder) / name
            with suppress(FileNotFoundError):
                kept = found.setdefault(_kind(path, store), Kept())
                kept.bytes += path.stat().st_size
                kept.files += 1
    return found


def _kind(path: Path, store: Path) -> str:
    place = "store" if path.is_relative_to(store) else "log"
    if path.suffix in (".runs", ".rows", ".parquet", ".log"):
        return {".runs": "runs", ".rows": "rows between jobs", ".parquet": "sealed segments", ".log": "segments"}[
            path.suffix
        ]
    if path.suffix == ".db" or path.name.endswith(("-wal", "-shm")):
        return f"SQLite of the {place}" + (" (WAL)" if path.name.endswith("-wal") else "")
    return f"others of the {place}"


def _role(process: int, parent: str) -> str:
    if parent in (JAVA, DAEMON, WORKERS):
        return DAEMON if parent == JAVA else WORKERS
    with suppress(OSError):
        if Path(f"/proc/{process}/comm").read_text() == "java\n":
            return JAVA
    return QUERIES


def _children(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def _fields(path: Path, *names: str) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if words and words[0][:-1] in names}


@dataclass(frozen=True, slots=True)
class Series:
    """A figure over time."""

    name: str
    unit: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Growth:
    """How a figure changed after the warm-up: the line through it, and where it was."""

    name: str
    unit: str
    first: float
    last: float
    per_hour: float


def series_of(samples: Sequence[Sample]) -> dict[str, list[Series]]:
    """Every figure, by what it is about."""
    roles = _names(sample.held for sample in samples)
    kinds = _names(sample.kept for sample in samples)

    def held(name: str, divisor: int = 1) -> dict[str, list[float]]:
        return {role: [getattr(one.held.get(role, Held()), name) / divisor for one in samples] for role in roles}

    def kept(name: str, divisor: int = 1) -> dict[str, list[float]]:
        return {kind: [getattr(one.kept.get(kind, Kept()), name) / divisor for one in samples] for kind in kinds}

    rates = [0.0] + [
        (after.batches - before.batches) / max(after.seconds - before.seconds, 0.001)
        for before, after in pairwise(samples)
    ]
    return {
        "memory, PSS": [Series("all but the writer", "MiB", [one.pss / MIB for one in samples])]
        + [Series(name, "MiB", values) for name, values in held("pss", MIB).items()],
        "memory, RSS": [Series(name, "MiB", values) for name, values in held("rss", MIB).items()],
        "processes": [Series(name, "", values) for name, values in held("processes").items()],
        "descriptors": [Series(name, "", values) for name, values in held("descriptors").items()],
        "threads": [Series(name, "", values) for name, values in held("threads").items()],
        "files": [Series(name, "", values) for name, values in kept("files").items()],
        "bytes on disk": [Series(name, "MiB", values) for name, values in kept("bytes", MIB).items()],
        "work": [
            Series("commits behind", "", [float(one.behind) for one in samples]),
            Series("batches/s", "", rates),
        ],
    }


def growth_of(samples: Sequence[Sample], warm_seconds: float) -> dict[str, list[Growth]]:
    """What grew after the warm-up, by subject: the slope of the best-fitting line."""
    after = [sample for sample in samples if sample.seconds >= warm_seconds]
    if len(after) < 3:
        return {}
    hours = np.array([sample.seconds for sample in after]) / 3600
    found = {}
    for title, all_series in series_of(after).items():
        # The first rate has nothing before it.
        start = 1 if title == "work" else 0
        found[title] = [_growth(series, hours, start) for series in all_series]
    return found


def _growth(series: Series, hours: np.ndarray[tuple[int], np.dtype[np.float64]], start: int) -> Growth:
    values = np.array(series.values[start:])
    slope = float(np.polyfit(hours[start:], values, 1)[0])
    return Growth(series.name, series.unit, float(values[0]), float(values[-1]), slope)


def _names(mappings: Any) -> list[str]:
    found: dict[str, None] = {}
    for mapping in mappings:
        found |= dict.fromkeys(mapping)
    return list(found)


def from_json(value: Mapping[str, Any]) -> Sample:
    """The opposite of `Sample.to_json`."""
    held = {role: Held(**one) for role, one in value["held"].items()}
    kept = {kind: Kept(**one) for kind, one in value["kept"].items()}
    return Sample(**{**value, "held": held, "kept": kept})
