"""What a benchmark run has to say: lines with goal, figure and ratio to a floor, as a table, as JSON, as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import apsw
import pyarrow as pa
from rich.console import Console
from rich.table import Table

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Floor:
    """What the machine itself can do: a figure that no log on it can beat for the same work."""

    name: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement. `ratio` is the figure divided by its floor, in the unit of the figure."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    better: Better = "more"
    floor: str = ""
    ratio: float | None = None
    note: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None where there is no goal."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "more" else self.value <= self.goal

    @property
    def verdict(self) -> str:
        return {None: "", True: "ok", False: "missed"}[self.is_met]

    @property
    def goal_text(self) -> str:
        if self.goal is None:
            return ""
        return f"{'>=' if self.better == 'more' else '<='} {quantity(self.goal, self.unit)}"

    @property
    def ratio_text(self) -> str:
        return "" if self.ratio is None else f"{quantity(self.ratio, 'x')} {self.floor}"


@dataclass(frozen=True, slots=True)
class Report:
    """All of one run."""

    machine: Mapping[str, object]
    settings: Mapping[str, object]
    floors: Sequence[Floor]
    lines: Sequence[Line]
    title: str = "The log"

    def to_json(self) -> str:
        lines = [{**asdict(line), "verdict": line.verdict} for line in self.lines]
        content = {
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "floors": [asdict(floor) for floor in self.floors],
            "lines": lines,
        }
        return json.dumps(content, indent=2, default=str)

    def to_markdown(self) -> str:
        floors = [[floor.name, quantity(floor.value, floor.unit), floor.note] for floor in self.floors]
        lines = [
            [line.name, line.goal_text, quantity(line.value, line.unit), line.ratio_text, line.verdict, line.note]
            for line in self.lines
        ]
        head = ["line", "goal", "figure", "ratio to the floor", "verdict", "note"]
        tables = [_markdown_table(["floor", "figure", "note"], floors), _markdown_table(head, lines)]
        if not floors:
            # Without floors there are no ratios.
            tables = [_markdown_table([*head[:3], *head[4:]], [[*line[:3], *line[4:]] for line in lines])]
        return "\n\n".join([_sentence(self.machine), _sentence(self.settings), *tables])

    def print(self, console: Console) -> None:
        table = Table(title=self.title, caption=f"{_sentence(self.machine)}\n{_sentence(self.settings)}")
        for name in ("line", "goal", "figure", "ratio to the floor", "verdict", "note"):
            table.add_column(name, justify="right" if name in {"goal", "figure"} else "left")
        for floor in self.floors:
            table.add_row(f"floor: {floor.name}", "", quantity(floor.value, floor.unit), "", "", floor.note)
        table.add_section()
        for line in self.lines:
            figure = quantity(line.value, line.unit)
            table.add_row(line.name, line.goal_text, figure, line.ratio_text, line.verdict, line.note)
        console.print(table)


def quantity(value: float, unit: str) -> str:
    """A figure with as many digits as one can believe."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def machine(directory: Path) -> dict[str, object]:
    """Where the run took place: what decides the figures, but no names."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "file system": _file_system(directory),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "headwater": version("headwater"),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """The type of the file system that holds the directory."""
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind = line.split()[:3]
        inside = directory.is_relative_to(point)
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _sentence(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def _markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
