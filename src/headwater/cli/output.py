"""What the commands print: tables and JSON lines on standard output, messages and hints on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wide enough that a table is never wrapped where no terminal wants it to be.
_WIDTH_WITHOUT_TERMINAL = 10_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Text that is too long for the terminal is folded, unless it is `whole`."""

    title: str
    justify: Literal["left", "right"] = "left"
    whole: bool = True


def number(title: str) -> Column:
    """A column of numbers."""
    return Column(title, "right")


def folding(title: str) -> Column:
    """A column of text that may be long."""
    return Column(title, whole=False)


def messages() -> Console:
    """Standard error, as it is now."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def say(text: str) -> None:
    """A message for the user."""
    messages().print(text)


def hint(text: str) -> None:
    """What to do next."""
    messages().print(Text.assemble(("hint: ", "cyan"), text))


def warn(text: str) -> None:
    """Something that should be looked at, though the command did what it was asked to."""
    messages().print(Text.assemble(("warning: ", "bold yellow"), text))


def complain(text: str) -> None:
    """Why the command failed."""
    messages().print(Text.assemble(("error: ", "bold red"), text))


def quote(text: str) -> None:
    """Lines that a message speaks of."""
    messages().print("\n".join(f"  {line}" for line in text.splitlines()))


def alarm(text: str) -> None:
    """A limit that was passed."""
    messages().print(Text.assemble(("alarm: ", "bold red"), text))


def print_json(objects: Iterable[Mapping[str, object]]) -> None:
    """One object per line."""
    for each in objects:
        sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """A table for people, without lines, as wide as it has to be."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    if indent:
        table.add_column("", width=indent - 2, no_wrap=True)
    for column in columns:
        table.add_column(
            Text(column.title), justify=column.justify, no_wrap=column.whole, overflow="fold", vertical="top"
        )
    for row in rows:
        table.add_row(*([""] if indent else []), *(Text(cell) for cell in row))
    console = _data()
    with console.capture() as captured:
        console.print(table)
    # The padding of the last column is no part of the data.
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_line(*parts: str | tuple[str, str]) -> None:
    """A line of text, each part plain or with a style."""
    _data().print(Text.assemble(*parts), soft_wrap=True)


def count(amount: int, thing: str) -> str:
    """Such as `1 record` and `12,000 records`."""
    return f"{amount:,} {thing}" if amount == 1 else f"{amount:,} {thing}s"


def _data() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDTH_WITHOUT_TERMINAL
    return console
