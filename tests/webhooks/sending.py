"""A view that is published by hand, and what sends it; also as a program that can be killed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.connectors.webhooks.options import Start, WebhookOptions
from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.sender import Patience, Sender
from headwater.connectors.webhooks.target import parse_target
from headwater.connectors.webhooks.webhook import Webhook, WebhookStatus
from headwater.engine.reading import Reader
from tests.unit.engine.samples import Driver, zset
from tests.webhooks.receiver import SECRET

QUICK = Patience(timedelta(milliseconds=5), timedelta(milliseconds=20), timedelta(seconds=60), refusals_max=3)


def options(url: str, start: Start = "now", view: str = "v") -> WebhookOptions:
    return WebhookOptions("to.shop", view, parse_target(url, allow_private=True), (SECRET,), start)


class Sending:
    """A sender in a thread, and what it says."""

    def __init__(self, directory: Path, url: str, start: Start = "now", *, view: str = "v", **given: Any) -> None:
        self.said: list[str] = []
        self.webhook = Webhook(directory, options(url, start, view))
        settings = {"patience": QUICK, **given}
        self.sender = Sender(directory, self.webhook.options, say=self.said.append, **settings)
        self.failure: BaseException | None = None
        self._directory = directory
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def status(self) -> WebhookStatus:
        with Reader(self._directory) as reader:
            return self.webhook.status(reader)

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.sender.stop()
        self._thread.join(30)
        assert self.is_over()
        assert self.failure is None, self.failure
        assert SECRET not in str(self.said)
        assert "hush" not in str(self.said)

    def _run(self) -> None:
        try:
            self.sender.run()
        except BaseException as error:  # noqa: BLE001 - the test is told
            self.failure = error


@contextmanager
def sending(directory: Path, url: str, start: Start = "now", **given: Any) -> Iterator[Sending]:
    made = Sending(directory, url, start, **given)
    try:
        yield made
    finally:
        made.stop()


def publish(driver: Driver, *rows: tuple[str, int], position: int | None = None) -> None:
    """Publishes changes of the view: texts and their weights."""
    numbered = [(hash_of(text), hash_of(text), text, weight) for text, weight in rows]
    driver.publish({"v": zset(*numbered)}, position)


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[:7].ljust(7, b"\0"), "big")


def main() -> None:
    directory, url, start = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    chosen = options(url, "content" if start == "content" else "now")
    sender = Sender(directory, chosen, patience=QUICK, poster=Poster(chosen.target, 5.0))
    sys.stdout.write("running\n")
    sys.stdout.flush()
    sender.run()


if __name__ == "__main__":
    main()
