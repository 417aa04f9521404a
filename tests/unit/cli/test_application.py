"""Errors are a sentence, a hint and an exit code; help has examples; only a bug shows a stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headwater.cli import arguments, log_topics
from headwater.cli.application import app
from headwater.cli.failures import explanation
from headwater.errors import DiskFull, InternalError, UsageError
from tests.unit.cli.conftest import Run


def commands_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The full name of every command below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = sorted(commands_of(get_command(app)))
LOG_COMMANDS = [command for command in COMMANDS if command[0] == "log"]
# What a command needs beside the log, where it needs anything.
ARGUMENTS: dict[str, list[object]] = {
    "create": ["t", "a int"],
    "alter": ["t", "--partitions", "2"],
    "iceberg": ["t", "--catalog", "sqlite:///c.db", "--table", "a.t"],
    "groups reset": ["g", "--to", "earliest"],
    **{name: ["g"] for name in ("groups show", "groups delete")},
    **{name: ["t"] for name in ("drop", "describe", "read", "seal", "compact", "release")},
}


def test_the_version_is_printed(headwater: Run) -> None:
    ran = headwater("--version")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("headwater ")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(headwater: Run, command: tuple[str, ...]) -> None:
    ran = headwater(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Example" in ran.out
    given = "" if command == ("demo",) else " ./data" if command in LOG_COMMANDS else " app.py"
    assert f"headwater {' '.join(command)}{given}" in ran.out


@pytest.mark.parametrize("arguments", [(), ("log",), *COMMANDS], ids=" ".join)
def test_help_shows_no_type_for_a_flag(headwater: Run, arguments: tuple[str, ...]) -> None:
    shown = headwater(*arguments, "--help").out
    assert "--help" in shown
    assert "bool" not in shown


@pytest.mark.parametrize("arguments", [(), ("log",)])
def test_without_a_command_the_help_is_shown(headwater: Run, arguments: tuple[str, ...]) -> None:
    ran = headwater(*arguments)
    assert ran.code == 2
    assert "Usage: headwater" in ran.out + ran.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nope",), "No such command 'nope'."),
        (("log", "topics"), "Missing argument 'DIR'."),
        (("log", "topics", "x", "--nope"), "No such option: --nope"),
        (("log", "create", "x", "t", "a int", "--partitions", "many"), "Invalid value for '--partitions'"),
    ],
)
def test_a_wrong_command_line_is_a_sentence_and_a_hint(
    headwater: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    ran = headwater(*arguments)
    assert (ran.code, ran.out) == (2, "")
    first, *_, last = ran.err.splitlines()
    assert first.startswith("error: ")
    assert sentence in first
    assert last.startswith("hint: `headwater")


@pytest.mark.parametrize("command", [c for c in LOG_COMMANDS if c != ("log", "init")], ids=" ".join)
def test_no_command_but_init_makes_a_log(headwater: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    given = {**ARGUMENTS, "append": ["t", written(tmp_path / "a.jsonl")]}
    ran = headwater(*command, tmp_path / "none", *given.get(" ".join(command[1:]), []))
    assert (ran.code, ran.out) == (2, "")
    assert "There is no log in" in ran.err
    assert "hint: Create one with `headwater log init`." in ran.err
    assert not (tmp_path / "none").exists()


def written(path: Path) -> Path:
    path.write_text("{}\n")
    return path


@pytest.mark.parametrize("command", ["init", "topics"])
def test_a_file_is_no_log(headwater: Run, tmp_path: Path, command: str) -> None:
    file = written(tmp_path / "afile")
    ran = headwater("log", command, file)
    assert ran.code == 2
    assert ran.err == f"error: {file} is a file, not a directory.\nhint: A log is a directory: pass that.\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Give it key columns: key='id'.", "Give it key columns: --key id."),
        ("Use cleanup='delete' for retention.", "Use --cleanup delete for retention."),
        ("Use position 5 or start='earliest'.", "Use position 5 or --from earliest."),
        ("segment_bytes_max must be more.", "--segment-bytes-max must be more."),
        ("There is no log in a/bytes_max must be.", "There is no log in a/bytes_max must be."),
    ],
)
def test_settings_are_named_as_options(text: str, shown: str) -> None:
    assert explanation(UsageError(text, hint=text)) == (shown, shown)


def test_a_catalog_that_is_none_is_damage(headwater: Run, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("no database, but long enough to look like one" * 100)
    ran = headwater("log", "topics", tmp_path)
    assert ran.code == 4
    assert "is damaged: file is not a database." in ran.err


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(arguments, "open_log", fail)


def test_what_failed_outside_is_not_the_users_fault(headwater: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(DiskFull("data/topics"), monkeypatch)
    ran = headwater("log", "topics", "data")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "error: No space is left on the disk that holds data/topics."
    assert ran.err.splitlines()[1].startswith("hint: Nothing is lost. Free some space")


def test_an_error_of_the_operating_system_names_the_file(headwater: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(PermissionError(13, "Permission denied", "data/wake"), monkeypatch)
    ran = headwater("log", "topics", "data")
    assert (ran.code, ran.err) == (1, "error: data/wake: Permission denied.\n")


@pytest.mark.parametrize("bug", [InternalError("an invariant"), ZeroDivisionError()])
def test_a_bug_is_not_hidden(headwater: Run, monkeypatch: pytest.MonkeyPatch, bug: Exception) -> None:
    fail_with(bug, monkeypatch)
    with pytest.raises(type(bug)):
        headwater("log", "topics", "data")


def test_ctrl_c_ends_quietly(headwater: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log_topics, "open_log", interrupt)
    ran = headwater("log", "init", "data")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_without_colour_nothing_is_coloured() -> None:
    forced = CliRunner(env={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"})
    assert "\x1b[3" not in forced.invoke(app, ["log", "topics", "none"]).stderr
    coloured = CliRunner(env={"FORCE_COLOR": "1", "NO_COLOR": None, "TERM": "xterm-256color"})
    assert "\x1b[" in coloured.invoke(app, ["log", "topics", "none"]).stderr
