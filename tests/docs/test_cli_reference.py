"""The reference of the command line is what the commands themselves say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from headwater.cli.application import app
from tools.cli_reference import PAGE, reference


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python tools/cli_reference.py"


def test_every_command_and_exit_code_is_in_it() -> None:
    page = reference()
    shown = [line.removeprefix("### headwater ") for line in page.splitlines() if line.startswith("### headwater ")]
    assert sorted(shown) == sorted(" ".join(command) for command in commands_of(get_command(app)))
    assert page.count("\n```sh\n") == len(shown)
    assert "| 3 | A group's lag is past a limit, or an alert fires. |" in page


def commands_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The full name of every command below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*path, name))
        else:
            yield (*path, name)
