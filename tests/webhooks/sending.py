"""A view that is published by hand, and what sends it; also as a program that can be killed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.target import parse_target
from headwater.connectors.webhooks.webhook import Webhook
from headwater.engine.parts import Report, Stop
from headwater.engine.reading import Reader
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.patience import Patience
from headwater.engine.sinks.port import Sink, SinkStatus, Start
from tests.unit.engine.samples import Driver, zset
from tests.webhooks.receiver import SECRET

QUICK = Patience(timedelta(milliseconds=5), timedelta(milliseconds=20), timedelta(seconds=60), refusals_max=3)


def webhook(url: str, view: str = "v", poster: Poster | None = None) -> Webhook:
    return Webhook("to.shop", view, parse_target(url, allow_private=True), (SECRET,), poster)


class Feeding(Report):
    """A feed in a thread, and what it says."""

    def __init__(
        self, directory: Path, sink: Sink, start: Start = "now", *, name: str = "out", view: str = "v"
    ) -> None:
        self.said: list[str] = []
        self.feed = Feed(directory, name, view, sink, start, QUICK)
        self.failure: BaseException | None = None
        self._directory, self._stop = directory, Stop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        self.said.append(text)
        sys.stdout.write(f"{text}\n")

    def warn(self, text: str) -> None:
        self.say(text)

    def status(self) -> SinkStatus:
        with Reader(self._directory) as reader:
            return self.feed.status(reader)

    def at(self) -> int | None:
        """The position that the target has."""
        position = self.status().position
        return None if position is None else int(position)

    def gave_up(self) -> bool:
        """Whether nothing more is tried until somebody resumes the sink."""
        return self.status().status == "paused"

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self.is_over()
        assert self.failure is None, self.failure
        assert SECRET not in str(self.said)
        assert "hush" not in str(self.said)

    def _run(self) -> None:
        try:
            self.feed.run(self._stop, self)
        except BaseException as error:  # noqa: BLE001 - the test is told
            self.failure = error


@contextmanager
def sending(
    directory: Path, url: str, start: Start = "now", *, view: str = "v", poster: Poster | None = None
) -> Iterator[Feeding]:
    made = Feeding(directory, webhook(url, view, poster), start, name="to.shop", view=view)
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
    poster = Poster(parse_target(url, allow_private=True), 5.0)
    sink = webhook(url, poster=poster)
    feed = Feed(directory, "to.shop", "v", sink, "content" if start == "content" else "now", QUICK)
    sys.stdout.write("running\n")
    sys.stdout.flush()
    feed.run(Stop(), Report())


if __name__ == "__main__":
    main()
