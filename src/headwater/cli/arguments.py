"""The arguments and options that several commands share, and the shape of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.errors import Declined, UsageError
from headwater.log.opening import open_log
from headwater.log.port import Log

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the log.", show_default=False)]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def open_existing(directory: Path, *, upkeep: bool = False) -> Log:
    """The log in a directory, which must have one. Raises `UsageError`."""
    check_no_file(directory)
    return open_log(directory, create=False, upkeep=upkeep)


def check_no_file(directory: Path) -> None:
    """Raises `UsageError` if something else has the name of the log's directory."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file, not a directory.", hint="A log is a directory: pass that.")


def examples(*lines: str) -> str:
    """The end of a command's help; every line is a command that can be run as it stands, or continues in the next."""
    return "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def ask(question: str, *, yes: bool) -> None:
    """Returns if the user agrees, or has agreed before. Raises `Declined`."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as aborted:
        typer.echo(err=True)
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise Declined(
            "There was no answer, so nothing was changed.", hint="Add --yes to continue without asking."
        ) from None
    if not agreed:
        raise Declined("Nothing was changed.")
