"""All systems at all lines, side by side: as a table, as Markdown, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

OURS = "headwater"


@dataclass(frozen=True, slots=True)
class Standing:
    """A system at a line. `differing` counts rows that are not as they must be; `error` says why there is no figure."""

    system: str
    line: str
    rows: int = 0
    seconds: float = 0.0
    start_seconds: float = 0.0
    differing: int = 0
    median: float | None = None
    """Milliseconds, where small batches are measured and not rows a second."""
    error: str = ""
    note: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """Rows a second; None where there is no right result."""
        return None if self.error or self.differing or not self.seconds else self.rows / self.seconds

    @property
    def text(self) -> str:
        if self.error:
            return f"cannot: {self.error}"
        if self.differing:
            return f"WRONG: {self.differing:,} rows differ"
        if self.median is not None:
            return f"{self.median:,.0f} ms ({self.note})"
        notes = ", ".join(filter(None, [f"{self.rows:,} rows", self.note, f"start {self.start_seconds:.0f} s"]))
        return f"{self.rate or 0:,.0f} rows/s ({notes})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What all systems did. `titles` has the lines in their order, by name."""

    titles: Mapping[str, str]
    standings: Sequence[Standing]

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(standing.system for standing in self.standings))

    def at(self, line: str, system: str) -> Standing | None:
        found = (standing for standing in self.standings if (standing.line, standing.system) == (line, system))
        return next(found, None)

    @property
    def of_rates(self) -> Comparison:
        """Without the lines that measure small batches."""
        waiting = {standing.line for standing in self.standings if standing.median is not None}
        titles = {line: title for line, title in self.titles.items() if line not in waiting}
        return Comparison(titles, [standing for standing in self.standings if standing.line in titles])

    @property
    def notes(self) -> list[str]:
        """The reasons why systems cannot, each once; cells refer to them by number."""
        return list(dict.fromkeys(standing.error for standing in self.standings if standing.error))

    def cell(self, line: str, system: str) -> str:
        standing = self.at(line, system)
        if standing is None:
            return ""
        if standing.error:
            return f"cannot ({self.notes.index(standing.error) + 1})"
        if standing.rate is None:
            return standing.text
        return f"{standing.rate:,.0f} rows/s{self._detail(standing)}"

    def _detail(self, standing: Standing) -> str:
        """How it compares with ours, and on how much if that was less."""
        ours = self.at(standing.line, OURS)
        if ours is None or ours is standing or not ours.rate or not standing.rate:
            return ""
        fewer = f", {standing.rows:,} rows" if standing.rows < ours.rows else ""
        return f" ({standing.rate / ours.rate:.2g} x{fewer})"

    @property
    def machinery(self) -> list[str]:
        """Versions and settings of every system, in a sentence each."""
        sentences = []
        for system in self.systems:
            of_system = [standing for standing in self.standings if standing.system == system and standing.rate]
            if of_system:
                pairs = {**of_system[0].versions, **of_system[0].settings}
                notes = list(dict.fromkeys(standing.note for standing in of_system if standing.note and standing.rate))
                said = [*(f"{name} {value}" for name, value in pairs.items()), *notes]
                sentences.append(f"{system}: {', '.join(said)}")
        return sentences

    @property
    def grid(self) -> list[list[str]]:
        """The table's rows, with its head."""
        rows = [[title, *(self.cell(line, system) for system in self.systems)] for line, title in self.titles.items()]
        return [["line", *self.systems], *rows]

    def to_markdown(self) -> str:
        head, *rows = self.grid
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join([table, *self._numbered, *self.machinery])

    def to_values(self) -> dict[str, object]:
        standings = [{**asdict(standing), "rate": standing.rate} for standing in self.standings]
        return {"titles": dict(self.titles), "standings": standings}

    def print(self, console: Console) -> None:
        head, *rows = self.grid
        table = Table(title="The engine and its peers", caption=escape("\n".join([*self._numbered, *self.machinery])))
        for name in head:
            table.add_column(name, justify="left" if name == head[0] else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)

    @property
    def _numbered(self) -> list[str]:
        return [f"({number}) {note}" for number, note in enumerate(self.notes, start=1)]
