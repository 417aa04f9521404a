"""Verifications of views: one at a time, in a thread of its own, and the last result of each view, which is kept."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headwater.app import App
from headwater.engine.publication import Base
from headwater.errors import HeadwaterError, Refused
from headwater.model.encoding import format_instant
from headwater.server.failures import error_body
from headwater.system.background import Background
from headwater.system.clock import instant

if TYPE_CHECKING:
    from headwater.spark.verification import Verification

Verify: TypeAlias = Callable[[str], dict[str, object]]
"""Compares a view with its batch query: what was found, or an error. It takes as long as it takes."""

FILE = "verifications.json"
DIFFERENCES_SHOWN_MAX = 10
_PROGRAM = "from headwater.cli import main; main()"


class Verifications:
    """What became of verifications, from any thread."""

    def __init__(self, directory: Path, verify: Verify) -> None:
        self._path, self._verify = Path(directory) / FILE, verify
        self._turn = threading.Lock()
        self._states: dict[str, dict[str, object]] = self._load()
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: Background | None = None
        self.done = self.wrong = 0

    def ask(self, view: str) -> dict[str, object]:
        """Asks for a verification, unless one of this view is under way; its state."""
        with self._turn:
            state = self._states.get(view, {})
            if state.get("status") in ("waiting", "running"):
                return dict(state)
            state = {**state, "view": view, "status": "waiting", "asked_at": _now(), "error": None}
            self._states[view] = state
            if self._thread is None:
                self._thread = Background("verify", self._run).start()
        self._asked.put(view)
        return dict(state)

    def state(self, view: str) -> dict[str, object]:
        """The state of a view: never, waiting, running, done or failed; and the last result, with its time."""
        with self._turn:
            return dict(self._states.get(view) or {"view": view, "status": "never"})

    def close(self) -> None:
        """Takes no more, and ends one that runs in a process of its own."""
        self._asked.put(None)
        if isinstance(self._verify, ProcessVerifier):
            self._verify.close()

    def _run(self) -> None:
        while (view := self._asked.get()) is not None:
            self._note(view, status="running", started_at=_now())
            try:
                found = self._verify(view)
            except HeadwaterError as error:
                self._note(view, status="failed", finished_at=_now(), **error_body(error))
            except Exception as error:  # noqa: BLE001 - whatever Spark raises is told to who asked
                message = f"The verification broke off: {type(error).__name__}."
                told = Refused(500, "verification_failed", message, hint="The server's log has more.")
                self._note(view, status="failed", finished_at=_now(), **error_body(told))
            else:
                self.done += 1
                self.wrong += not found["equal"]
                self._note(view, status="done", finished_at=_now(), result={**found, "verified_at": _now()})

    def _note(self, view: str, **about: object) -> None:
        with self._turn:
            self._states[view] = {**self._states.get(view, {"view": view}), **about}
            results = {name: state["result"] for name, state in self._states.items() if state.get("result")}
            # What cannot be kept now is kept with the next result; nobody may wait for a verification that died of it.
            with suppress(OSError):
                fresh = self._path.with_suffix(".new")
                fresh.parent.mkdir(parents=True, exist_ok=True)
                fresh.write_text(json.dumps(results))
                fresh.replace(self._path)

    def _load(self) -> dict[str, dict[str, object]]:
        try:
            results = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {view: {"view": view, "status": "done", "result": result} for view, result in results.items()}


def app_verifier(app: App) -> Verify:
    """Verifies in this process, which starts Spark if it has none yet."""

    def verify(view: str) -> dict[str, object]:
        return verification_json(app.verify(view))

    return verify


def verification_json(found: Verification) -> dict[str, object]:
    """What a comparison of a view with its batch query has found."""
    shown = found.differences[:DIFFERENCES_SHOWN_MAX]
    return {
        "position": str(found.position),
        "rows": found.rows,
        "equal": found.equal,
        "doubles_within": found.doubles_within,
        "decided_by": list(found.decided_by),
        "base": None if found.base is None else base_json(found.base),
        "since": {topic: {str(part): first for part, first in one.items()} for topic, one in found.since.items()},
        "excluded": [
            {"topic": row.topic, "partition": row.partition, "offset": row.offset, "reason": row.reason}
            for row in found.excluded
        ],
        "differences": len(found.differences),
        "examples": [
            {"surplus": one.surplus, "row": {name: _text(value) for name, value in one.row.items()}} for one in shown
        ],
    }


def base_json(base: Base) -> dict[str, object]:
    """From where on a view was replayed: what came before cannot be recomputed."""
    return {"position": str(base.position), "taken_at": format_instant(instant(base.taken_at).replace(microsecond=0))}


class ProcessVerifier:
    """Verifies in a process of its own, for a server without a Spark: `headwater verify APP VIEW --json`."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, view: str) -> dict[str, object]:
        command = [sys.executable, "-c", _PROGRAM, "verify", self._application, view, "--json"]
        environment = {**os.environ, "NO_COLOR": "1"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as self._process:
            printed, said = self._process.communicate()
        if not printed.strip():
            lines = [line for line in said.splitlines() if line.startswith("error: ")]
            message = lines[-1].removeprefix("error: ") if lines else "The verification broke off."
            raise Refused(500, "verification_failed", message, hint=_hint(said))
        found: dict[str, object] = json.loads(printed.strip().splitlines()[-1])
        return {name: value for name, value in found.items() if name != "view"}

    def close(self) -> None:
        """Ends a process that runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()


def _text(value: object) -> object:
    """A value fit for JSON."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _hint(text: str) -> str:
    return next((line.removeprefix("hint: ") for line in text.splitlines() if line.startswith("hint: ")), "")


def _now() -> str:
    return format_instant(datetime.now(UTC).replace(microsecond=0))
