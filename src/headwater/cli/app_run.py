"""`headwater run`: keeps the views of an application up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli.app_argument import PANEL, Application
from headwater.cli.app_progress import display, steps
from headwater.cli.app_standby import stand_by
from headwater.cli.arguments import examples
from headwater.cli.ending import Ending
from headwater.cli.failures import INTERRUPTED
from headwater.cli.output import complain, say
from headwater.cli.progress import Bar
from headwater.cli.serving import Certificate, Host, Key, LimitOptions, Port, address_of
from headwater.cli.showing import Showing
from headwater.engine.pipeline import Progress
from headwater.engine.presence import Turn, present
from headwater.errors import HeadwaterError, InternalError, SparkStopped, UsageError, WorkerLost
from headwater.loading import load
from headwater.runner import Run
from headwater.server.running import HOST

Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="The Spark master, instead of the one in the application: spark://host:7077."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(rich_help_panel=PANEL, epilog=examples("headwater run app.py --once"))(run)


def run(
    application: Application,
    *,
    once: Annotated[bool, typer.Option("--once", help="Catch up, then exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per batch.")] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Start Spark, wait until no other run is left, then take over.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take over from another run of the application, which ends.")
    ] = False,
    approve: Annotated[
        bool, typer.Option("--approve", help="Keep changed views as candidates, until `headwater views switch`.")
    ] = False,
    master: Master = None,
    server: Annotated[
        bool, typer.Option("--server/--no-server", help="Serve the application over HTTP as well.")
    ] = True,
    host: Host = HOST,
    port: Port = None,
    certificate: Certificate = None,
    key: Key = None,
    limits: LimitOptions = None,
) -> None:
    """Keep the views of an application up to date and serve it over HTTP, until Ctrl-C.

    Files `*.sql` next to the application are views, too: revenue.sql is the view revenue. Ctrl-C and SIGTERM let the
    current batch finish. Only one process runs an application: a second run refuses to start. With --take-over it
    replaces the first, which exits with code 5; with --standby it gets ready, and waits until the first ends or dies.
    With --once, nothing is served and no sink is fed. A part that fails, such as a source or a view with a record that
    it cannot process, does not stop the others.
    """
    if standby and (once or take_over):
        other = "--once" if once else "--take-over"
        raise UsageError(f"{other} and --standby cannot be combined.", hint="Leave one of them out.")
    with (
        _loaded(application, master, alone=not (standby or take_over)) as app,
        Ending() as ending,
        _turn(app, ending) if standby else nullcontext(),
    ):
        # While another run serves, its port is taken.
        address = address_of(host, port, certificate, key) if server and not once else None
        with Bar("Reading tables") as bar:
            showing = Showing(bar)
            made = Run(
                app,
                once=once,
                # A standby has waited for its turn.
                take_over=take_over or standby,
                approve=approve,
                address=address,
                limits=limits or (),
                report=showing,
                asked=lambda: ending.asked,
            )
            done = _run(app, made, ending, showing, as_json=as_json)
        reached = app.published()
    if showing.code is not None:
        raise typer.Exit(showing.code)
    if once and ending.asked and (done is None or not done.caught_up):
        raise typer.Exit(INTERRUPTED)
    if reached is not None and done is None:
        say(f"The views are at position {reached.position}; there was nothing to do.")


def _run(app: App, made: Run, ending: Ending, showing: Showing, *, as_json: bool) -> Progress | None:
    """Runs the application; its last batch."""
    try:
        with made as running:
            with steps() as step:
                running.prepare(step)
            # Spark has put its own answer to Ctrl-C in place when it started, which ends the batch.
            ending.install()
            return _watch(app, running, ending, as_json=as_json)
    except KeyboardInterrupt:
        if not ending.asked:
            raise
        return None
    except HeadwaterError as error:
        # What was told when it happened is not told again.
        if made.failure is not error or showing.code is None:
            raise
        return None


@contextmanager
def _turn(app: App, ending: Ending) -> Iterator[None]:
    """Stands by until no other run is left, and keeps it so within the block."""
    with Turn(app.directory) as turn:
        if not turn.has_come():
            try:
                stand_by(app, turn, ending.install)
            except KeyboardInterrupt:
                raise typer.Exit from None
        yield


def _loaded(application: str, master: str | None, *, alone: bool) -> App:
    """The application. Spark starts meanwhile: while captures read their first tables, and the server comes up.

    Raises `AlreadyRunning` first if it has to run `alone` and does not.
    """
    with ExitStack() as undo:
        app = undo.enter_context(load(application, "create"))
        if alone:
            with present(app.directory):
                pass
        if master is not None:
            app.set_master(master)
        if app.views:
            app.start_spark()
        undo.pop_all()
    return app


def _watch(app: App, running: Run, ending: Ending, *, as_json: bool) -> Progress | None:
    """Shows batches until there are no more, or until somebody wants them to end; the last one."""
    progress = None
    with display(app.name, list(app.views), as_json=as_json) as show, ending.patient():
        try:
            for progress in _told(app, running.batches()):
                # A Spark that was started again has its own answer to signals.
                ending.install()
                show(progress)
                if ending.asked:
                    break
        except Exception as error:
            # Who ends a whole group of processes ends Spark, too, in the middle of what it does.
            lost = isinstance(error, InternalError | SparkStopped | WorkerLost)
            expected = isinstance(error, HeadwaterError) and not lost
            if expected or not ending.asked:
                raise
            say("Stopped in the middle of a batch, which had no effect.")
    return progress


def _told(app: App, batches: Iterator[Progress]) -> Iterator[Progress]:
    """The batches; before the first one, what the views are that cannot be kept."""
    for place, progress in enumerate(batches):
        if not place:
            for view, reason in app.not_kept.items():
                complain(f"View {view!r} is not kept up to date (the others are): {reason}")
        yield progress
