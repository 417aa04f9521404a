"""How far a webhook is, in a file: what has arrived, the message that is on its way, and what is wrong."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from headwater.connectors.webhooks.messages import Message, Place
from headwater.errors import ExternalError
from headwater.system.storage import Storage, storage_error

DIRECTORY = "webhooks"
Status = Literal["running", "retrying", "paused"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the `view` was sent; `place` is None before it was begun with. Instants are ISO 8601."""

    view: str
    place: Place | None = None
    sequence: int = 0
    message: Message | None = None
    status: Status = "running"
    error: str | None = None
    failed_at: str | None = None
    delivered_at: str | None = None
    failures: int = 0


class ProgressFile:
    """Reads and replaces the progress of one webhook, each time as a whole."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory / DIRECTORY
        self._path = self.directory / f"{name}.json"

    def load(self, view: str) -> Progress:
        """What was saved last of this view. Raises `ExternalError` if it cannot be read."""
        try:
            found = _parse(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return Progress(view)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ExternalError(
                f"The progress of a webhook, {self._path}, cannot be read.",
                hint="Look at its permissions; or remove it, and the webhook begins anew.",
            ) from error
        # The webhook may have been of another view before: only the numbers of its messages go on.
        return found if found.view == view else Progress(view, sequence=found.sequence)

    def save(self, progress: Progress) -> None:
        """Returns when it is on the disk. Raises `DiskFull`, `StorageFailed`."""
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(json.dumps(asdict(progress)).encode())
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            Storage().sync_directory(self.directory)
        except OSError as error:
            raise storage_error(error, self._path) from error


def _parse(held: dict[str, Any]) -> Progress:
    message = held["message"]
    if message is not None:
        message = Message(message["id"], message["body"], _place(message["place"]))
    return Progress(**{**held, "place": _place(held["place"]), "message": message})


def _place(held: dict[str, Any] | None) -> Place | None:
    return None if held is None else Place(**held)
