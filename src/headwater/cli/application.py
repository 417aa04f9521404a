"""The program `headwater`: its commands, and what becomes of an error, a Ctrl-C and a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headwater.cli import (
    app_alerts,
    app_care,
    app_explain,
    app_query,
    app_run,
    app_serve,
    app_time,
    app_views,
    capture,
    demo,
    log_append,
    log_care,
    log_groups,
    log_iceberg,
    log_read,
    log_topics,
    sinks,
)
from headwater.cli.failures import INTERRUPTED, PIPE_CLOSED, report
from headwater.cli.output import complain, hint, say
from headwater.errors import HeadwaterError, InternalError


class Family(TyperGroup):
    """Commands whose help shows a flag as it is given, without a type."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
        return command


def _without_types(parameters: Any) -> Any:
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


class CaptureFamily(Family):
    """`headwater capture app.py` is `headwater capture run app.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


class Commands(Family):
    """The commands; an expected error is a sentence, a hint and an exit code, and only a bug shows a stack trace."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the signature of what it overrides
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name or "headwater", complete_var, standalone_mode=False, **extra)
        except typer.TyperException as error:
            code = _misused(error)
        except typer.Abort:
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _let_go_of_stdout()
            raise typer.Exit(PIPE_CLOSED) from None
        except InternalError:
            raise
        except (HeadwaterError, OSError) as error:
            raise typer.Exit(report(error)) from None
        return result


def _misused(error: typer.TyperException) -> int:
    """Says what is wrong with the command line; a command without any argument shows its help instead."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        say(error.format_message())
    else:
        complain(error.format_message())
        if context is not None:
            hint(f"`{context.command_path} --help` shows how it is used.")
    return error.exit_code


def _let_go_of_stdout() -> None:
    """What is still buffered has no reader: without this, the interpreter complains about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


app = typer.Typer(
    cls=Commands,
    name="headwater",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="headwater: every change in one replayable log, and everything else derived from it.",
)
log = typer.Typer(
    cls=Family,
    no_args_is_help=True,
    help="Create, fill, read and maintain a log. A directory is a log; there is no server to run.",
)
for command in (app_run, app_serve, app_query, app_explain, app_time, app_alerts, app_care, demo):
    command.register(app)
for family in (log_topics, log_append, log_read, log_groups, log_care, log_iceberg):
    family.register(log)
groups_family = typer.Typer(cls=Family, no_args_is_help=True, help="List, show, move and delete consumer groups.")
log_groups.register_groups(groups_family)
log.add_typer(groups_family, name="groups", rich_help_panel=log_groups.PANEL)
capture_family = typer.Typer(
    cls=CaptureFamily,
    no_args_is_help=True,
    help="Bring the tables of databases into the log. `headwater capture app.py` runs it.",
)
capture.register(capture_family)
sink_family = typer.Typer(
    cls=Family,
    no_args_is_help=True,
    help="List the sinks of an application, look how far they are, pause, resume, audit, repair, reset and drop them.",
)
sinks.register(sink_family)
app.add_typer(log, name="log")
app.add_typer(capture_family, name="capture")
app.add_typer(sink_family, name="sink")
views_family = typer.Typer(
    cls=Family, no_args_is_help=True, help="Compare changed views with those that readers see, and switch to them."
)
app_views.register(views_family)
app.add_typer(views_family, name="views")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands it over by position
    if wanted:
        typer.echo(f"headwater {version('headwater')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
