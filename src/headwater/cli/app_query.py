"""`headwater query`: SQL over the views and topics of an application, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import pyarrow.types as pat
import typer

from headwater.app import App
from headwater.cli.app_argument import PANEL, Application
from headwater.cli.arguments import Json, examples
from headwater.cli.output import Column, count, print_table, say, warn
from headwater.cli.values import readable
from headwater.errors import NotYet, UsageError
from headwater.loading import load
from headwater.model.encoding import json_rows
from headwater.model.position import Position


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        rich_help_panel=PANEL,
        epilog=examples(
            'headwater query app.py "SELECT country, revenue FROM revenue ORDER BY revenue DESC"',
            'headwater query app.py "SELECT * FROM revenue" --csv',
            "headwater query app.py \"SELECT * FROM revenue AT POSITION '42'\"",
        ),
    )(query)


def query(
    application: Application,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A single read-only statement.", show_default=False)],
    *,
    at_least: Annotated[
        int | None,
        typer.Option(min=0, metavar="POSITION", help="Wait until the views have reached this position of the log."),
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Maximum wait for --at-least.")] = "30s",
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Query views and topics, all at one position.

    A query sees a table's newest rows and a stream's records. AT POSITION '42' after a name reads a view or a
    topic as it was.

    The SQL is DuckDB's, not Spark's. It only reads, and it needs no Spark: a query takes about a second, also while
    `headwater run` is running.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv cannot be combined.", hint="Use one of them.")
    position = None if at_least is None else Position.parse(str(at_least))
    with load(application) as app:
        if position is None and app.published() is None:
            raise NotYet(None, None, 0)
        answer = app.answer(sql, at_least=position, timeout="0s" if position is None else timeout)
        _warn_of_changes(app)
    if as_json:
        _print_json(answer.table)
    elif as_csv:
        _print_csv(answer.table)
    else:
        _print_table(answer.table)
        say(f"{count(answer.table.num_rows, 'row')}, at position {answer.position}.")


def _warn_of_changes(app: App) -> None:
    """Says so if the views are defined otherwise now than when they were built."""
    published = app.published()
    built = {} if published is None else published.definition.views
    if {name: view.sql for name, view in built.items()} != dict(app.views):
        warn("The views have changed since they were built; this is what they held. `headwater run` builds them.")


def _rows(table: pa.Table) -> Iterator[list[object]]:
    """The rows, each value fit for JSON."""
    for row in json_rows(table):
        yield list(row.values())


def _print_json(table: pa.Table) -> None:
    for row in _rows(table):
        line = dict(zip(table.column_names, row, strict=True))
        sys.stdout.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


def _print_csv(table: pa.Table) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in _rows(table):
        writer.writerow([_plain(value) for value in row])


def _plain(value: object) -> object:
    """A value as CSV has it: nothing for null, JSON for what has parts."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _print_table(table: pa.Table) -> None:
    columns = [Column(field.name, "right" if _is_number(field.type) else "left", whole=False) for field in table.schema]
    print_table(columns, ([_shown(value) for value in row] for row in _rows(table)))


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pat.is_integer(arrow) or pat.is_floating(arrow) or pat.is_decimal(arrow))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if value.isprintable() else readable(value)
    return json.dumps(value, ensure_ascii=False, default=str)
