"""An alert on the view `v`, evaluated by a feed with a clock that tests move; also as a program that can be killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from headwater.connectors.http.channel import Http
from headwater.engine.alerts.history import AlertRecord, History
from headwater.engine.alerts.notifier import Notifier
from headwater.engine.alerts.rule import Rule
from headwater.engine.alerts.target import AlertTarget
from headwater.engine.parts import Report, Stop
from headwater.engine.running import Runner
from headwater.engine.sinks.channel import Channel, Message, Notice, Sender
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.target import Assignment
from headwater.errors import TargetFailed
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.system.clock import Clock
from headwater.testing.clock import ManualClock
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.sending import QUICK, Feeding

TOPIC = "shop.alerts"
RULE = Rule("late", "v", ("key",))


class Phone(Channel):
    """A channel in memory, which fails as it is told."""

    kind = "phone"

    def __init__(self, *, several: bool = False) -> None:
        self.takes_several = several  # type: ignore[misc]
        self.events = frozenset()
        self.rings: list[Message] = []
        self.failures: list[TargetFailed] = []

    @property
    def address(self) -> str:
        return "phone"

    def open(self) -> Sender:
        return _Line(self)

    def told(self) -> list[tuple[str, str]]:
        return [(notice.event, notice.key) for message in self.rings for notice in message.notices]

    def notices(self) -> list[Notice]:
        return [notice for message in self.rings for notice in message.notices]


class _Line(Sender):
    def __init__(self, phone: Phone) -> None:
        self._phone = phone

    def send(self, message: Message) -> None:
        if self._phone.failures:
            raise self._phone.failures.pop(0)
        self._phone.rings.append(message)

    def close(self) -> None:
        pass


def sink_of(directory: Path, log: Log, rule: Rule, clock: Clock) -> TargetSink:
    target = AlertTarget(rule, directory, log, TOPIC, clock)
    assignment = Assignment(directory.name, rule.name, rule.view, rule.key)
    return TargetSink(target, assignment, directory, log, f"{rule.name}.dead_letters")


class Watch:
    """An alert at work, and how it is looked at."""

    def __init__(self, view: Keyed, rule: Rule = RULE, clock: ManualClock | None = None) -> None:
        self.view, self.rule, self.clock = view, rule, clock or ManualClock()
        self.history = History(view.log, TOPIC)

    @contextmanager
    def evaluating(self) -> Iterator[Feeding]:
        sink = sink_of(self.view.directory, self.view.log, self.rule, self.clock)
        made = Feeding(self.view.directory, sink, "content", name=self.rule.name)
        try:
            yield made
        finally:
            made.stop()

    @contextmanager
    def notifying(self, *channels: Channel) -> Iterator[Sequence[Notifier]]:
        made = [
            Notifier(self.rule, number, channel, self.view.directory, self.history, QUICK, self.clock)
            for number, channel in enumerate(channels)
        ]
        with Runner(made):
            yield made

    def records(self) -> list[AlertRecord]:
        return self.history.of(self.rule.name)

    def happened(self) -> list[tuple[str, str]]:
        return [(record.event, record.key) for record in self.records()]

    def pass_time(self, **by: float) -> None:
        self.clock.advance(timedelta(**by))


def main() -> None:
    """Evaluates an alert of rows that are there for a moment, and posts what fires to a URL."""
    from_directory, log_directory, url, after = sys.argv[1:]
    directory, rule = Path(from_directory), Rule("late", "v", ("key",), timedelta(seconds=float(after)))
    with open_log(log_directory) as log:
        sink = sink_of(directory, log, rule, Clock())
        channel = Http(url, {"event": "$_event", "key": "$_key"}, allow_private=True)
        feed = Feed(directory, rule.name, rule.view, sink, "content", QUICK)
        notifier = Notifier(rule, 0, channel, directory, History(log, TOPIC), QUICK)
        sys.stdout.write("running\n")
        sys.stdout.flush()
        stop = Stop()
        with Runner([notifier]):
            feed.run(stop, Report())


if __name__ == "__main__":
    main()
