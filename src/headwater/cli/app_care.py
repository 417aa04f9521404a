"""`headwater` verify and state: whether the views are right, and what they take on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.app import App
from headwater.cli.app_argument import PANEL, Application
from headwater.cli.app_progress import steps
from headwater.cli.arguments import Json, Yes, ask, examples
from headwater.cli.failures import FAILED
from headwater.cli.output import Column, complain, count, folding, number, print_json, print_line, print_table, say
from headwater.cli.quantities import format_size
from headwater.engine.arrangements import operator_sizes, view_sizes
from headwater.engine.manifest import Size
from headwater.engine.publication import Generation, Hold
from headwater.errors import HistoryGone, NotYet, UnknownView, ViewChanged
from headwater.loading import load
from headwater.model.encoding import format_instant
from headwater.server.verifications import DIFFERENCES_SHOWN_MAX, base_json, verification_json
from headwater.system.clock import instant

if TYPE_CHECKING:
    from headwater.spark.verification import Verification


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command, *lines in (
        (verify, "headwater verify app.py", "headwater verify app.py revenue"),
        (state, "headwater state app.py", "headwater state app.py --delete --yes"),
    ):
        app.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)


def verify(
    application: Application,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW...", help="The views to verify; all by default.", show_default=False),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Compare views with their SQL as ordinary Spark queries over the log; exit code 1 if they differ.

    Each view is compared at its own position. The queries run in plain Spark, without the code that keeps views up to
    date. Doubles may differ by one part in 10^9, because a query may add them up in any order; everything else must be
    equal. Records that were set aside are listed, and where SQL leaves the answer open, so is the rule that decided.
    For a topic with retention, the records that the views are derived from count. A view that remembers records that
    the log has deleted is compared with a replay from a base, an earlier state that was kept: what came before cannot
    be recomputed. Without a base it can be neither proved nor disproved; the exit code is 1, too.
    """
    with load(application) as app:
        for view in views or ():
            if view not in app.views:
                raise UnknownView(view, list(app.views))
        if app.published() is None:
            raise NotYet(None, None, 0)
        found: list[Verification] = []
        gone: list[HistoryGone | ViewChanged] = []
        with steps() as step:
            app.plan(step)
            for view in views or app.views:
                step(f"Verifying {view}")
                try:
                    found.append(app.verify(view))
                except (HistoryGone, ViewChanged) as error:
                    if views and isinstance(error, ViewChanged):
                        raise
                    gone.append(error)
    if as_json:
        print_json({"view": one.view, **verification_json(one)} for one in found)
    else:
        _print_verifications(found)
    if wrong := [one.view for one in found if not one.equal]:
        complain(f"Not what the SQL gives: {', '.join(wrong)}.")
    for one in gone:
        complain(one.message)
    if wrong or gone:
        raise typer.Exit(FAILED)
    within = f"doubles to within {found[0].doubles_within:g} of their size"
    say(f"{count(len(found), 'view')} verified: {'it is' if len(found) == 1 else 'all are'} correct ({within}).")


def _print_verifications(found: Sequence[Verification]) -> None:
    columns = [Column("view"), number("position"), number("rows"), Column("result")]
    rows = []
    for one in found:
        result = "right" if one.equal else f"{count(len(one.differences), 'row')} differ"
        if one.base is not None:
            result += f" since position {one.base.position}"
        if one.excluded:
            result += f", without {count(len(one.excluded), 'record')} that failed"
        rows.append((one.view, str(one.position), f"{one.rows:,}", result))
    print_table(columns, rows)
    for one in found:
        for difference in one.differences[:DIFFERENCES_SHOWN_MAX]:
            times = abs(difference.surplus)
            what = "should not be there" if difference.surplus > 0 else "is missing"
            row = "  ".join(f"{name}={value}" for name, value in difference.row.items())
            print_line(f"{one.view}: {what}{f' ({times} times)' if times > 1 else ''}: {row}")
        if len(one.differences) > DIFFERENCES_SHOWN_MAX:
            print_line(f"{one.view}: and {len(one.differences) - DIFFERENCES_SHOWN_MAX:,} more")
        for record in one.excluded[:DIFFERENCES_SHOWN_MAX]:
            place = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
            print_line(f"{one.view}: set aside: {place}: {record.reason}")
        if one.base is not None:
            taken = format_instant(instant(one.base.taken_at).replace(microsecond=0))
            print_line(
                f"{one.view}: replayed from the base of {taken}, at position {one.base.position}; what came before "
                "cannot be recomputed"
            )
        for topic, since in one.since.items():
            offsets = ", ".join(f"{offset} in partition {partition}" for partition, offset in since.items())
            counts = "counts" if one.base is None else "is proved"
            print_line(f"{one.view}: topic {topic} {counts} from offset {offsets}")
        for rule in one.decided_by:
            print_line(f"{one.view}: SQL leaves this open: {rule}")


@dataclass(frozen=True, slots=True)
class Holding:
    """What an operator or a view holds on the disk."""

    kind: str
    name: str
    label: str
    level: int | None
    size: Size


def state(
    application: Application,
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete all state; the next run rebuilds the views from the log.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Show how much disk the views and their state take, which generations and bases there are, and what sinks hold.

    A generation is one definition of the application. When views change, the next run builds what is missing beside
    the current generation, which is kept up to date until the new one takes over.
    """
    with load(application) as app:
        if delete:
            _delete(app, yes=yes)
            return
        generations, current = app.generations(), app.published()
        held, holds = [] if current is None else holdings(current, app.state()), app.holds()
        bases = app.bases()
    if as_json:
        print_json(
            [
                {
                    "generations": [_generation_json(one) for one in generations],
                    "state": _state_json(held),
                    "followers": _holds_json(holds),
                    "bases": [base_json(one) for one in bases],
                }
            ]
        )
        return
    if not generations:
        say("There is no state: the application has not run yet.")
        return
    print_table(
        [Column("generation"), Column("status"), number("batches"), number("position"), Column("made")],
        [(str(one.id), one.status, f"{one.batch:,}", str(one.position), _made(one)) for one in generations],
    )
    print_line()
    print_table(
        [Column(""), number("level"), folding("what"), number("rows"), number("bytes"), number("files")],
        [
            (
                f"view {one.name}" if one.kind == "view" else f"[{one.name}]",
                "-" if one.level is None else str(one.level),
                one.label,
                f"{one.size.rows:,}",
                format_size(one.size.bytes),
                f"{one.size.runs:,}",
            )
            for one in held
        ],
    )
    if holds:
        print_line()
        print_table(
            [Column("kept for"), Column("view"), number("generation"), number("behind batch"), number("bytes")],
            [(one.follower, one.view, str(one.generation), f"{one.low:,}", format_size(one.bytes)) for one in holds],
        )
    for one in bases:
        print_line(f"base at position {one.position}, taken {base_json(one)['taken_at']}")
    say(f"Total: {format_size(sum(one.size.bytes for one in held))}.")


def holdings(generation: Generation, sizes: dict[str, Size]) -> list[Holding]:
    """The operators and then the views of a generation, with all parts of what each holds."""
    kept = operator_sizes(sizes)
    operators = sorted(generation.definition.explanation.operators.values(), key=lambda one: (one.level, one.number))
    made = [
        Holding("operator", str(one.number), one.label, one.level, kept[one.name])
        for one in operators
        if one.name in kept
    ]
    views = [Holding("view", name, "its content", None, size) for name, size in sorted(view_sizes(sizes).items())]
    return [*made, *views]


def _delete(app: App, *, yes: bool) -> None:
    if not app.generations():
        say("There is no state to delete.")
        return
    size = format_size(sum(one.bytes for one in app.state().values()))
    ask(f"Delete all views of {app.name} and their state ({size})? The log is not touched.", yes=yes)
    app.delete_state()
    say(f"Deleted. The next run of {app.name} rebuilds its views from the log.")


def _state_json(held: Sequence[Holding]) -> list[dict[str, object]]:
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "level": one.level,
            "label": one.label,
            "rows": one.size.rows,
            "bytes": one.size.bytes,
            "files": one.size.runs,
        }
        for one in held
    ]


def _holds_json(holds: Sequence[Hold]) -> list[dict[str, object]]:
    return [
        {
            "name": one.follower,
            "view": one.view,
            "generation": one.generation,
            "behind_batch": one.low,
            "bytes": one.bytes,
        }
        for one in holds
    ]


def _generation_json(one: Generation) -> dict[str, object]:
    return {
        "id": one.id,
        "status": one.status,
        "batches": one.batch,
        "position": str(one.position),
        "made_at": _made(one),
        "views": list(one.definition.views),
    }


def _made(one: Generation) -> str:
    return format_instant(datetime.fromtimestamp(one.created_at / 1_000_000, UTC).replace(microsecond=0))
