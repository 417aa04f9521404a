"""A sink of the view `v` that sends messages; also as a program that can be killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.connectors.http.channel import Http
from headwater.connectors.mail.channel import Mail
from headwater.engine.parts import Report, Stop
from headwater.engine.sinks.channel import Channel
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.letters import DeadLetters
from headwater.engine.sinks.messages import MessageSink
from headwater.engine.sinks.port import Start
from headwater.log.opening import open_log
from headwater.log.port import Log
from headwater.system.clock import Clock
from tests.channels.posts import HUSH
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.sending import QUICK, Feeding

NAME = "tell"
OPS = "ops@example.com"
BODY = {"event": "$_event", "key": "$key", "text": "$text", "id": "$_id"}


def sink_of(
    directory: Path, log: Log, channel: Channel, key: tuple[str, ...] = ("key",), clock: Clock | None = None
) -> MessageSink:
    return MessageSink(NAME, "v", channel, key, directory, DeadLetters(log, f"{NAME}.dead_letters", "v"), clock)


@contextmanager
def telling(
    view: Keyed,
    channel: Channel,
    start: Start = "now",
    *,
    key: tuple[str, ...] = ("key",),
    clock: Clock | None = None,
) -> Iterator[Feeding]:
    """Feeds the channel within the block, and checks that nothing that was said has a secret."""
    made = Feeding(view.directory, sink_of(view.directory, view.log, channel, key, clock), start, name=NAME)
    try:
        yield made
    finally:
        made.stop()
        assert HUSH not in str(made.said)
        assert HUSH not in repr(channel) + repr(made.feed) + str(made.status())


def main() -> None:
    directory, log_directory, url = sys.argv[1:]
    with open_log(log_directory) as log:
        by_mail = url.startswith("smtp://")
        channel = Mail(OPS, smtp=url, tls="none") if by_mail else Http(url, BODY, allow_private=True)
        sink = sink_of(Path(directory), log, channel)
        sys.stdout.write("running\n")
        sys.stdout.flush()
        Feed(Path(directory), NAME, "v", sink, "content", QUICK).run(Stop(), Report())


if __name__ == "__main__":
    main()
