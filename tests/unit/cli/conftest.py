"""The command line as a test uses it: run a command in this process, and look at all that it printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.application import app
from headwater.log.embedded.log import EmbeddedLog

SCHEMA = "id bigint, amount decimal(12,2), at timestamp"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def headwater() -> Run:
    """Runs `headwater`; fails if it shows a stack trace."""

    def run(*arguments: object, answer: str | None = None) -> Ran:
        result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(
            app, [str(each) for each in arguments], input=answer
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def log(directory: Path) -> Iterator[EmbeddedLog]:
    """A log with a topic `orders` of two partitions."""
    with EmbeddedLog(directory, upkeep=False) as opened:
        opened.create("orders", SCHEMA, key="id", partitions=2, event_time="at")
        yield opened
