"""The keeper of a server: starts it again when it fails, so that its end is the end of nothing else in the process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from headwater.errors import HeadwaterError, InternalError
from headwater.server.running import Address, Server

PAUSE_SECONDS = 0.5
"""How long the first pause is; each is twice as long as the one before, until a server has lived for a while."""
PAUSE_SECONDS_MAX = 30.0
LIVED_SECONDS = 60.0
"""A server that fails after so long fails for the first time."""
_log = logging.getLogger("headwater.server")


@dataclass(frozen=True, slots=True)
class Failed:
    """A server that has ended by itself, or has not come to be: what it failed with, and when it is started again."""

    error: BaseException | None
    pause_seconds: float

    @property
    def is_bug(self) -> bool:
        """Whether nobody has thought of it; what a full or busy machine does to a server, somebody has."""
        expected = isinstance(self.error, HeadwaterError | OSError)
        return not expected or isinstance(self.error, InternalError)

    def __str__(self) -> str:
        why = "" if self.error is None else f" ({type(self.error).__name__}: {str(self.error).rstrip('.')})"
        return f"The server has failed{why}. Restarting it in {self.pause_seconds:g} s; everything else keeps running."


class Keeper:
    """Keeps a server at an address, from `start` to `stop`. `make` makes one; `on_failure` is called in a thread."""

    def __init__(
        self, make: Callable[[Address], Server], address: Address, on_failure: Callable[[Failed], None]
    ) -> None:
        self._make, self._address, self._on_failure = make, address, on_failure
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._keep, name="headwater-server-keeper", daemon=True)

    @property
    def url(self) -> str:
        """Where to look, while there is a server."""
        assert self._server is not None, "it was started"
        return self._server.url

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Answers requests when it returns. Raises what keeps the first server from it."""
        self._server = self._make(self._address).start()
        # Clients come back to where it was.
        self._address = replace(self._address, port=self._server.port)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        with self._turn:
            assert self._server is not None, "it was started"
            self._server.stop()
        self._thread.join()

    def _keep(self) -> None:
        assert self._server is not None, "it was started"
        began, error, pause = time.monotonic(), self._server.wait(), PAUSE_SECONDS
        while not self._ended.is_set():
            if time.monotonic() - began > LIVED_SECONDS:
                pause = PAUSE_SECONDS
            self._tell(Failed(error, pause))
            self._ended.wait(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
            began, error = time.monotonic(), self._serve()

    def _serve(self) -> BaseException | None:
        """Serves until the server ends; what it failed with, also if it has not come to be."""
        try:
            with self._turn:
                if self._ended.is_set():
                    return None
                self._server = self._make(self._address).start()
        except BaseException as error:  # noqa: BLE001 - a server is started again whatever it fails with
            return error
        return self._server.wait()

    def _tell(self, failed: Failed) -> None:
        if failed.is_bug:
            _log.error("The server failed", exc_info=failed.error)
        self._on_failure(failed)
