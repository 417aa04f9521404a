"""`headwater time`: the clock of a log, and the watermarks of an application's topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headwater.cli.app_argument import PANEL, Application
from headwater.cli.arguments import examples
from headwater.cli.output import Column, folding, number, print_json, print_table, say
from headwater.cli.quantities import format_age
from headwater.engine.books import Books
from headwater.engine.watermarking import SHOWN, WatermarkState
from headwater.loading import check_topics, load

_COLUMNS = (
    Column("TOPIC"), Column("WATERMARK"), number("BEHIND"), number("PRODUCERS"), number("LATE"),
    number("DROPPED"),     folding("HELD BACK BY"), folding("IDLE"),
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("time", rich_help_panel=PANEL, epilog=examples("headwater time app.py"))(show)


def show(
    application: Application,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per topic.")] = False,
) -> None:
    """Show the log's clock and each topic's watermark, with the producers that hold it back and those that are idle.

    What is behind is behind the log's clock. Late events are those that were older than the watermark when they came.
    With late='drop' the views have dropped some of them, of those that have reached the views.
    The producers are those of the records so far, furthest behind first.
    """
    with load(application) as app:
        check_topics(app)
        clock, found = app.log.now(), app.time.watermarks()
        books = {one.topic: one for one in app.books()}
    if as_json:
        print_json({**one.to_json(), "books": _books_json(books.get(one.topic))} for one in found)
        return
    say("The clock has not ticked yet." if clock is None else f"The clock is at {clock.isoformat()}.")
    if found:
        print_table(_COLUMNS, [_row(one, books.get(one.topic)) for one in found])
    else:
        say("No topic has a watermark.")


def _books_json(books: Books | None) -> dict[str, Any] | None:
    return None if books is None else books.to_json()


def _row(state: WatermarkState, books: Books | None) -> Sequence[str]:
    return (
        state.topic,
        "" if state.watermark is None else state.watermark.isoformat(),
        "" if state.behind is None else format_age(state.behind.total_seconds()),
        f"{state.producers:,}",
        f"{state.late:,}, by up to {format_age(state.late_by.total_seconds())}" if state.late else "0",
        "none" if books is None else f"{books.late + books.future:,} of {books.records:,}",
        _names(state.held_back_by),
        _names(state.idle),
    )


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(name or "(all)" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN:,} more"
