"""What sends a webhook: follows its view, and posts each message until it has arrived, before it makes the next."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.connectors.webhooks.messages import BrokenOff, Message, Packer, Place
from headwater.connectors.webhooks.options import WebhookOptions
from headwater.connectors.webhooks.posting import Failure, Poster
from headwater.connectors.webhooks.progress import Progress, ProgressFile
from headwater.engine.reading import Reader
from headwater.engine.subscription import Changes, Subscription
from headwater.errors import Determinate, UnknownView, UsageError
from headwater.model import signing
from headwater.model.encoding import format_instant
from headwater.model.position import Position
from headwater.system.lock import FileLock

LOOK_SECONDS = 1.0
"""How long it waits for changes, for a view that is not there yet, or for another process that sends the same."""
AGENT = "headwater"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and for how long, a message is tried again."""

    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(minutes=5)
    """The pause between two attempts doubles up to here; some of it is left to chance."""
    passing: timedelta = timedelta(days=1)
    """After so long it pauses, if nobody answers or the receiver says that it cannot now."""
    refusals_max: int = 8
    """After so many refusals in a row (about two minutes of them) it pauses."""

    def delay(self, attempts: int, failure: Failure, chance: float) -> float:
        """Seconds before the next attempt; `chance` is from 0 to 1."""
        doubled = self.first.total_seconds() * 2.0 ** min(attempts - 1, 30)
        longest = self.longest.total_seconds()
        pause = min(doubled, longest) * (0.5 + chance / 2)
        return max(pause, min(failure.retry_after or 0.0, longest))

    def is_over(self, refusals: int, seconds: float, failure: Failure) -> bool:
        """Whether there is no further attempt, after so many refusals in a row, and so long."""
        if failure.kind == "gone":
            return True
        if failure.kind == "refused":
            return refusals >= self.refusals_max
        return seconds >= self.passing.total_seconds()


class Sender:
    """Sends one webhook while it is run. Of several, in any processes, one sends and the others wait."""

    def __init__(
        self,
        directory: Path,
        options: WebhookOptions,
        *,
        say: Callable[[str], None] = lambda _: None,
        patience: Patience | None = None,
        poster: Poster | None = None,
    ) -> None:
        self._directory, self._options, self._say = directory, options, say
        self._patience = patience or Patience()
        self._poster = poster or Poster(options.target)
        self._file = ProgressFile(directory, options.name)
        self._progress = self._saved = Progress(options.view)
        self._ended = threading.Event()

    @property
    def title(self) -> str:
        return f"webhook-{self._options.name}"

    def is_ready(self) -> bool:
        return True

    def stop(self) -> None:
        self._ended.set()
        self._poster.close()

    def run(self) -> None:
        """Until it is stopped, or paused because nobody takes what it sends."""
        self._file.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._file.directory / f"{self._options.name}.lock")
        try:
            while not self._ended.is_set():
                with lock.try_hold() as alone:
                    if alone:
                        self._send()
                        return
                self._ended.wait(LOOK_SECONDS)
        finally:
            lock.close()

    def _send(self) -> None:
        self._progress = self._saved = self._file.load(self._options.view)
        if self._progress.status == "paused":
            self._progress = replace(self._progress, status="retrying")
        try:
            # What was on its way may have arrived: it goes again, under the same id.
            if self._progress.message is None or self._deliver(self._progress.message):
                self._follow()
        finally:
            self._save()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._follow_from(self._progress.place):
                    return
            except UnknownView:
                # Those who run it have looked: it is being built.
                self._ended.wait(LOOK_SECONDS)
            except (UsageError, BrokenOff) as error:
                # Too old, or of a time before the state was deleted.
                if not self._begin_anew(str(error) or "A change could not be sent as a whole."):
                    return
            except Determinate as error:
                self._say(f"Webhook {self._options.name!r} waits: {error.message}")
                self._ended.wait(self._patience.first.total_seconds())

    def _follow_from(self, place: Place | None) -> bool:
        """Sends what comes behind a place; whether it is to go on."""
        if place is None and self._options.start == "now":
            place = self._current()
            if place is None:
                return not self._ended.wait(LOOK_SECONDS)
            self._progress = replace(self._progress, place=place)
            self._save()
        after = None if place is None else Position.parse(place.position)
        generation = None if place is None else place.generation
        packer = Packer(self._options.name, self._options.view, self._progress.sequence, place)
        with Subscription(self._directory, self._options.view, after, generation=generation) as subscription:
            for message in packer.pack(self._steps(subscription)):
                if message is None:
                    self._rest(subscription)
                elif not self._deliver(message, packer.sequence):
                    return False
        return not self._ended.is_set()

    def _steps(self, subscription: Subscription) -> Iterator[Changes | None]:
        waited = False
        while not self._ended.is_set():
            try:
                found = self._next(subscription, LOOK_SECONDS if waited else 0)
            except UsageError:
                yield None  # what is there already is sent first
                raise
            waited = found is None
            yield found

    def _next(self, subscription: Subscription, seconds: float) -> Changes | None:
        found = subscription.poll(timedelta(seconds=seconds))
        if found is not None and found.snapshot and self._options.start == "now":
            raise UsageError("The columns of the view have changed.")
        return found

    def _rest(self, subscription: Subscription) -> None:
        """Keeps how far it has looked, if changes came to nothing, and what has arrived."""
        reached, place = subscription.reached, self._progress.place
        if reached is not None and place is not None and not place.rows:
            self._progress = replace(self._progress, place=Place(str(reached[0]), reached[1]))
        self._save()

    def _begin_anew(self, reason: str) -> bool:
        """Lets the content come, or says that changes are missing; whether it is to go on."""
        place, before = self._current(), self._progress.place
        if place is None or (before is not None and Position.parse(place.position) < Position.parse(before.position)):
            # Views whose state was deleted are built anew from the log, and what was before is no news.
            return not self._ended.wait(LOOK_SECONDS)
        self._say(f"Webhook {self._options.name!r} begins anew: {reason}")
        if self._options.start == "content":
            self._progress = replace(self._progress, place=None)
            return True
        packer = Packer(self._options.name, self._options.view, self._progress.sequence, place)
        return self._deliver(packer.gap(place, reason), packer.sequence)

    def _current(self) -> Place | None:
        """Where the view is now; None if it is not there yet."""
        with Reader(self._directory) as reader:
            current = reader.current()
        if current is None or self._options.view not in current.definition["views"]:
            return None
        return Place(str(current.position), current.id)

    def _deliver(self, message: Message, sequence: int | None = None) -> bool:
        """Posts a message until it has arrived; False if it has not, because this ends or pauses."""
        kept = self._progress
        self._progress = replace(kept, message=message, sequence=kept.sequence if sequence is None else sequence)
        self._save()
        attempts, refusals, began = 0, 0, time.monotonic()
        while not self._ended.is_set():
            body, now = message.body.encode(), datetime.now(UTC)
            signed = signing.headers(self._options.secrets, message.id, body, now)
            failure = self._poster.post({**signed, "content-type": "application/json", "user-agent": AGENT}, body)
            if failure is None:
                self._arrived(message)
                return True
            if self._ended.is_set():
                break
            attempts += 1
            refusals = refusals + 1 if failure.kind == "refused" else 0
            paused = self._patience.is_over(refusals, time.monotonic() - began, failure)
            self._failed(failure, attempts, paused=paused)
            if paused:
                break
            self._ended.wait(self._patience.delay(attempts, failure, random.random()))  # noqa: S311 - no secret
        return False

    def _arrived(self, message: Message) -> None:
        if self._progress.status != "running":
            self._say(f"Webhook {self._options.name!r} is taken again.")
        # It is saved with the next message, or as soon as there is none.
        self._progress = replace(
            self._progress, place=message.place, message=None, status="running", error=None, delivered_at=_now()
        )

    def _failed(self, failure: Failure, attempts: int, *, paused: bool) -> None:
        if paused:
            self._say(f"Webhook {self._options.name!r} is paused: {failure.reason}. The next run goes on with it.")
        elif attempts == 1:
            self._say(f"Webhook {self._options.name!r}: {failure.reason}. It is tried again.")
        self._progress = replace(
            self._progress,
            status="paused" if paused else "retrying",
            error=failure.reason,
            failed_at=_now(),
            failures=self._progress.failures + 1,
        )
        self._save()

    def _save(self) -> None:
        """Returns when the progress is on the disk: nothing is sent that is not kept first."""
        told = False
        while self._progress != self._saved:
            try:
                self._file.save(self._progress)
                self._saved = self._progress
            except Determinate as error:
                if not told:
                    self._say(f"Webhook {self._options.name!r} waits: {error.message}")
                told = True
                if self._ended.wait(LOOK_SECONDS):
                    return


def _now() -> str:
    return format_instant(datetime.now(UTC).replace(microsecond=0))
