"""Finds the examples of a Markdown page and runs them as a reader would: in order, in one empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

RUNNABLE = ("python", "console", "sh")
MISSPELT = {
    "py": "python",
    "python3": "python",
    "pycon": "python",
    "bash": "sh",
    "shell": "sh",
    "shell-session": "console",
}
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
NOT_RUN = re.compile(r"^\s*<!--\s*not run:(?P<reason>.*)-->\s*$")
WILDCARDS = re.compile(r"…|\.\.\.")
COMMAND_SECONDS_MAX = 300


class BadPage(Exception):
    """A page whose examples cannot be told apart from what is not to be run."""


class ExampleFailed(AssertionError):
    """A command of a page that did not do what the page says."""


@dataclass(frozen=True)
class Example:
    """A fenced block; `line` is that of its fence, counted from 1, and `not_run` the reason for leaving it out."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that the page shows as its output (none: any output will do)."""

    text: str
    output: tuple[str, ...]


def examples(page: str, markdown: str) -> Iterator[Example]:
    """The blocks of a page in a language that is run, in order, with those that are left out for a reason."""
    lines = markdown.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = _closing_fence(page, lines, number, opening["ticks"])
        language = opening["language"].lower()
        place = f"{page}:{number + 1}"
        if language in MISSPELT:
            raise BadPage(f"{place}: write {MISSPELT[language]} instead of {language}, so that the example is run")
        if language in RUNNABLE:
            text = textwrap.dedent("\n".join(lines[number + 1 : end])) + "\n"
            reason = _reason(place, lines[number - 1]) if number else None
            yield Example(page, number + 1, language, text, reason)
        number = end + 1


def _closing_fence(page: str, lines: list[str], opening: int, ticks: str) -> int:
    for number in range(opening + 1, len(lines)):
        line = lines[number].strip()
        if line.startswith(ticks) and not line.strip(ticks[0]):
            return number
    raise BadPage(f"{page}:{opening + 1}: the block is never closed")


def _reason(place: str, line_above: str) -> str | None:
    comment = NOT_RUN.match(line_above)
    if comment is None:
        return None
    if not comment["reason"].strip():
        raise BadPage(f"{place}: say why the block is not run")
    return comment["reason"].strip()


def commands(example: Example) -> list[Command]:
    """The commands of a console block; one that ends in a backslash continues in the next line."""
    found: list[tuple[str, list[str]]] = []
    for line in example.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif not found:
            if line.strip():
                raise BadPage(f"{example.place}: a console block starts with a command: $ ...")
        elif found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line.removeprefix("> "), [])
        else:
            found[-1][1].append(line)
    return [Command(text, tuple(_without_blank_ends(output))) for text, output in found]


def _without_blank_ends(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n") if any(map(str.strip, lines)) else []


def matches(expected: tuple[str, ...], output: str) -> bool:
    """Whether the output is what the page shows; `…` and `...` stand for any text, alone in a line for any lines."""
    pattern = "".join(
        r"(?:.*\n)*" if WILDCARDS.fullmatch(line.strip()) else ".*".join(map(re.escape, WILDCARDS.split(line))) + r"\n"
        for line in expected
    )
    lines = _without_blank_ends(output.splitlines())
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def run(example: Example, namespace: ModuleType, directory: Path) -> None:
    """Runs one example in `directory`, which is also the working directory when the example is Python."""
    if example.language == "python":
        # The blank lines make a traceback name the line of the page.
        source = "\n" * example.line + example.text
        exec(compile(source, example.page, "exec"), namespace.__dict__)
    elif example.language == "sh":
        _shell(example, example.text, directory)
    else:
        for command in commands(example):
            output = _shell(example, command.text, directory)
            if command.output and not matches(command.output, output):
                shown = "\n".join(command.output)
                raise ExampleFailed(
                    f"{example.place}: $ {command.text}\nthe page shows:\n{shown}\nit printed:\n{output}"
                )


def _shell(example: Example, text: str, directory: Path) -> str:
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        cwd=directory,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise ExampleFailed(f"{example.place}: exit code {done.returncode} from\n{text}\nit printed:\n{done.stdout}")
    return done.stdout
