"""Control of a sink from any process: a pause that lasts, and requests to the process that feeds the sink."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headwater.errors import HeadwaterError, RowRefused, UsageError
from headwater.system.storage import storage_error

Action = Literal["audit", "reset", "drop", "send"]
ABANDONED_SECONDS = 20.0
"""A request whose sender has not renewed it for so long is not carried out any more."""
_REQUEST, _ANSWER = ".request", ".answer"


@dataclass(frozen=True, slots=True)
class Request:
    """Something to do between two deliveries, while the target stays at one position."""

    action: Action
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


class Control:
    """The files beside a sink's progress by which processes ask its feeder for something."""

    def __init__(self, directory: Path, name: str) -> None:
        """`directory` is that of the progress files."""
        self._paused = directory / f"{name}.paused"
        self._resumed = directory / f"{name}.resumed"
        self._requests = directory / f"{name}.requests"

    # Pause and resume

    @property
    def is_paused(self) -> bool:
        """Whether somebody has paused the sink."""
        return self._paused.exists()

    def pause(self) -> None:
        """Lets nothing be delivered until `resume`, in any process, also after a restart."""
        with _storing(self._paused):
            self._paused.parent.mkdir(parents=True, exist_ok=True)
            self._paused.touch()

    def resume(self) -> None:
        """Ends a pause, whether somebody asked for it or the target had failed for too long."""
        with _storing(self._paused):
            self._paused.parent.mkdir(parents=True, exist_ok=True)
            self._paused.unlink(missing_ok=True)
            self._resumed.touch()

    def was_resumed(self) -> bool:
        """Whether `resume` was called since this was asked last."""
        with suppress(OSError):
            self._resumed.unlink()
            return True
        return False

    # Requests

    def ask(self, request: Request) -> None:
        """Hands in a request."""
        path = self._requests / f"{request.id}{_REQUEST}"
        with _storing(path):
            self._requests.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps({"action": request.action, "arguments": dict(request.arguments)}))
            fresh.replace(path)

    def renew(self, request: Request) -> None:
        """Says that the sender still waits, unless the request was taken already."""
        with suppress(OSError):
            os.utime(self._requests / f"{request.id}{_REQUEST}")

    def answered(self, request: Request) -> Mapping[str, Any] | None:
        """What came of a request: {"done": …}, {"error": …}, or {"progress": [done, total]}; None if nothing yet."""
        try:
            found: Mapping[str, Any] = json.loads((self._requests / f"{request.id}{_ANSWER}").read_bytes())
        except (OSError, ValueError):
            return None
        return found

    def withdraw(self, request: Request) -> None:
        """Removes a request and its answer."""
        for suffix in (_REQUEST, _ANSWER):
            with suppress(OSError):
                (self._requests / f"{request.id}{suffix}").unlink()

    def pending(self) -> list[Request]:
        """The requests that nobody has taken yet; what their senders have abandoned is removed."""
        found = []
        with suppress(OSError):
            for path in sorted(self._requests.iterdir()):
                with suppress(OSError, ValueError, KeyError):
                    if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                        path.unlink()
                    elif path.suffix == _REQUEST:
                        held = json.loads(path.read_bytes())
                        found.append(Request(held["action"], held["arguments"], path.stem))
        return found

    def take(self, request: Request) -> bool:
        """Whether the request was still there; from now on it is carried out here, and nowhere else."""
        with suppress(OSError):
            (self._requests / f"{request.id}{_REQUEST}").unlink()
            return True
        return False

    def answer(self, request: Request, said: Mapping[str, Any]) -> None:
        """Tells the sender what came of a request, or how far it is."""
        path = self._requests / f"{request.id}{_ANSWER}"
        # A disk that takes no answer does not take the next delivery's progress either, which is reported.
        with suppress(OSError):
            fresh = path.with_suffix(".told")
            fresh.write_text(json.dumps(said))
            fresh.replace(path)


def error_json(error: HeadwaterError) -> dict[str, Any]:
    """An error as an answer holds it."""
    kind = "row" if isinstance(error, RowRefused) else "usage" if isinstance(error, UsageError) else "target"
    reason = error.reason if isinstance(error, RowRefused) else ""
    return {"error": {"kind": kind, "message": error.message, "hint": error.hint, "reason": reason}}


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error
