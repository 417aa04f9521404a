"""The program `headwater`: what becomes of an error, a Ctrl-C and a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import headwater
from headwater.cli.commands import Commands
from headwater.cli.failures import INTERRUPTED, PIPE_CLOSED, report
from headwater.cli.families import Family
from headwater.cli.output import complain, hint, say
from headwater.errors import HeadwaterError, InternalError


class Program(Family):
    """All commands; an expected error is a sentence, a hint and an exit code, and only a bug shows a stack trace."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()

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
    cls=Program,
    name="headwater",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="headwater: every change in one replayable log, and everything else derived from it.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer hands it over by position
    if wanted:
        typer.echo(f"headwater {headwater.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
