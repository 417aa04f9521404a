"""Writes docs/reference/cli.md from the commands themselves: `python tools/cli_reference.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from headwater.cli.application import app
from headwater.cli.failures import EXIT_CODES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

GROUP = "it needs a consumer group; tests/unit/cli/test_groups.py has one"
FOLLOWER = "it needs a follower that is gone; tests/unit/cli/test_groups.py has one"
APPLICATION = "it needs an application; tests/e2e/test_app_cli.py has one"

OPENING = """\
# The command line

<!-- Made by tools/cli_reference.py from the commands themselves; change those, and run it again. -->

`headwater --version` prints the version; `headwater COMMAND --help` and `headwater log COMMAND --help` print the help
of one command.

- Data goes to standard output; messages, hints and progress go to standard error.
- `--json` prints one JSON object per line: decimals as strings, times in ISO 8601 with a `Z`, binary as base64.
- A duration is written `500ms`, `30s`, `5m`, `12h`, `7d`, `2w` or `1h30m`; a size `1000`, `500MB` or `64MiB`.
- Only `init` and an application create a log. Colors follow `NO_COLOR`, and color is never the only cue.

| exit code | meaning |
|---|---|
"""


def reference() -> str:
    """The whole page."""
    root: Any = get_command(app)
    codes = "".join(f"| {code} | {_cell(meaning)} |\n" for code, meaning in EXIT_CODES.items())
    parts = [OPENING + codes]
    panel = ""
    own = [command for command in root.commands.values() if not hasattr(command, "commands")]
    families = [each for each in root.commands.values() if hasattr(each, "commands") and each.name != "log"]
    for group, command in [
        *_log_commands(root.commands["log"]),
        *((f"{family.name} ", each) for family in families for each in family.commands.values()),
        *(("", each) for each in own),
    ]:
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            parts.append(f"## {panel}\n")
        parts.append("\n".join(_section(group, command)))
    return "\n".join(parts)


def _log_commands(log: Any) -> list[tuple[str, Any]]:
    """Its commands, and behind those of the same panel the commands of its families."""
    found = [("log ", each) for each in log.commands.values() if not hasattr(each, "commands")]
    for family in (each for each in log.commands.values() if hasattr(each, "commands")):
        last = max(at for at, (_, each) in enumerate(found) if each.rich_help_panel == family.rich_help_panel)
        found[last + 1 : last + 1] = [(f"log {family.name} ", each) for each in family.commands.values()]
    return found


def _section(group: str, command: Any) -> Iterator[str]:
    parameters = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option"]
    yield f"### headwater {group}{command.name}\n"
    usage = " ".join(each.metavar if each.required else f"[{each.metavar}]" for each in arguments)
    yield f"`headwater {group}{command.name} {usage}{' [OPTIONS]' if options else ''}`\n"
    yield inspect.cleandoc(command.help) + "\n"
    yield "| | |\n|---|---|"
    for each in [*arguments, *options]:
        yield f"| {_name(each)} | {_cell(each.help)}{_default(each)} |"
    # An application needs a Spark, which takes long to start.
    reason = {"log groups ": GROUP, "log ": FOLLOWER}.get(group, APPLICATION)
    runs = group == "log " and command.name != "release"
    note = "" if runs else f"<!-- not run: {reason} -->\n"
    yield f"\n{note}```sh\n" + "\n".join(examples_of(command)) + "\n```\n"


def examples_of(command: Any) -> list[str]:
    """The lines of a command's examples, as a shell takes them."""
    _, *lines = command.epilog.splitlines()
    return [line.removeprefix("  ") for line in lines]


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`"
    names = ", ".join(f"`{option}`" for option in parameter.opts)
    return names if parameter.is_flag else f"{names} {_cell(_value(parameter))}"


def _value(parameter: Any) -> str:
    choices = parameter.type_descriptor.choices
    return f"`{parameter.metavar}`" if parameter.metavar else " or ".join(f"`{choice}`" for choice in choices)


def _default(parameter: Any) -> str:
    shown = parameter.default is not None and parameter.param_type_name == "option" and not parameter.is_flag
    return f" Default: `{parameter.default}`." if shown and parameter.show_default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(reference())
