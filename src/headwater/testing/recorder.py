"""How clients write down what they do: one file of JSON lines per process, merged into a history afterwards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.testing.history import Action, Entry, Operation, Type


class Recorder:
    """The operations of one process. What was recorded outlives a SIGKILL. Use it from one thread."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._file = os.open(folder / f"{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def invoke(
        self, action: Action, *, sent: Sequence[Entry] = (), read: Sequence[Entry] = (), group: str | None = None
    ) -> None:
        """Before an operation."""
        self._write("invoke", action, sent=sent, read=read, group=group)

    def end(
        self,
        action: Action,
        outcome: Type,
        *,
        sent: Sequence[Entry] = (),
        read: Sequence[Entry] = (),
        group: str | None = None,
        covers: Sequence[str] = (),
        whole: bool = False,
        at_end: bool = False,
    ) -> None:
        """After it."""
        more = {"covers": list(covers), "whole": whole, "at_end": at_end}
        self._write(outcome, action, sent=sent, read=read, group=group, **more)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, outcome: Type, action: Action, **fields: Any) -> None:
        line = {name: value for name, value in fields.items() if value}
        for name in ("sent", "read"):
            if name in line:
                line[name] = [[entry.partition, entry.value, entry.offset] for entry in line[name]]
        line |= {"at": time.monotonic_ns(), "process": self.process, "type": outcome, "action": action}
        # One write per line: a process that is killed leaves whole lines.
        os.write(self._file, json.dumps(line).encode() + b"\n")


def load_history(folder: Path) -> list[Operation]:
    """Everything that was recorded in a folder, in the order in which it happened."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return sorted((_operation(json.loads(line)) for line in lines), key=lambda operation: operation.at)


def _operation(line: dict[str, Any]) -> Operation:
    for name in ("sent", "read"):
        line[name] = tuple(Entry(*entry) for entry in line.get(name, ()))
    line["covers"] = tuple(line.get("covers", ()))
    return Operation(**line)
