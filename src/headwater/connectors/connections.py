"""The connections of an application: its sources and its sinks, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack, get_args

from headwater.connectors.registry import open_sink, open_source
from headwater.engine.reading import Reader
from headwater.engine.sinks.channel import Channel
from headwater.engine.sinks.delivering import TargetSink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.function import FunctionSink
from headwater.engine.sinks.grouped import GroupFeed, MemberFeed
from headwater.engine.sinks.letters import DeadLetters
from headwater.engine.sinks.messages import MessageSink
from headwater.engine.sinks.port import Sink, Start
from headwater.engine.sinks.target import Assignment, Target
from headwater.engine.sinks.waiting import chosen, wait_for
from headwater.engine.sources import DatabaseSource, Home, Source
from headwater.engine.subscription import Changes
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.model.durations import Duration, duration_of
from headwater.model.position import Position, check_position
from headwater.system.names import check_name

if TYPE_CHECKING:
    from headwater.connectors.postgres.options import CaptureSettings

SinkFunction = TypeVar("SinkFunction", bound=Callable[[Changes], object])


class Connections:
    """What an application declares; nothing outside is touched before it runs."""

    def __init__(self, log: Log, pipeline_directory: Path) -> None:
        self._log, self._pipeline_directory = log, pipeline_directory
        self.sources: dict[str, Source] = {}
        self._feeds: dict[str, Feed] = {}
        self._groups: dict[str, dict[str, TargetSink]] = {}

    @property
    def sinks(self) -> dict[str, Feed]:
        """The sinks, each with what feeds it, or with its part of what feeds its group."""
        for group, members in self._groups.items():
            known = [name for name in members if isinstance(self._feeds.get(name), MemberFeed)]
            if len(known) != len(members):
                made = GroupFeed(self._pipeline_directory, group, members)
                self._feeds |= {member.sink_name: member for member in made.members}
        return self._feeds

    def add_source(self, name: str, source: str | Callable[..., Source], options: Mapping[str, object]) -> Source:
        """A source, by its URL or by what makes it, with its options. Raises `UsageError`."""
        check_name("source", name)
        if name in self.sources:
            raise UsageError(f"There is already a source named {name!r}.", hint="Give one of them a name.")
        if not isinstance(source, str) and not callable(source):
            raise UsageError(
                f"Source {name!r} cannot read from {source!r}.", hint="Give it a URL, or a class that makes a Source."
            )
        home = Home(name, self._log, self._log.state_directory / "capture" / name)
        made = open_source(home, source, options) if isinstance(source, str) else source(home, **options)
        self.sources[name] = made
        return made

    def add_sink(
        self,
        name: str,
        view: str,
        to: str | Sink | Target | Channel | Callable[[Changes], object],
        key: str | Sequence[str],
        start: Start | None,
        dead_letter: str | None,
        group: str | None,
        options: Mapping[str, object],
    ) -> None:
        """A sink, by its URL and options, as it is, or as a target or a function. Raises `UsageError`."""
        check_name("sink", name)
        if name in self._feeds or any(name in members for members in self._groups.values()):
            raise UsageError(f"There is already a sink named {name!r}.", hint="Give one of them another name.")
        if start is not None and start not in get_args(Start):
            raise UsageError(f"A sink cannot start with {start!r}.", hint="Use 'now' or 'content'.")
        if isinstance(to, str):
            to = open_sink(name, view, to, options)
        elif options:
            raise UsageError(f"Options of a sink go with a URL: {', '.join(options)}.", hint="Give them to the sink.")
        columns = (key,) if isinstance(key, str) and key else tuple(key)
        if isinstance(to, Target):
            feed = self._feed_of(name, view, to, columns, start, dead_letter)
            if group is not None:
                self._join(group, name, feed)
            self._feeds[name] = feed
            return
        if group is not None:
            raise UsageError(f"Sink {name!r} cannot be in a group.", hint="Targets such as hw.sinks.Postgres can.")
        if isinstance(to, Channel):
            to = self._messages_of(name, view, to, columns, dead_letter)
            self._feeds[name] = Feed(self._pipeline_directory, name, view, to, start or "now")
            return
        if key or dead_letter is not None:
            raise UsageError(
                f"Sink {name!r} takes neither a key nor a dead-letter topic.",
                hint="Targets such as hw.sinks.Postgres do; webhooks and functions get every change as it is.",
            )
        if not isinstance(to, Sink):
            if not callable(to):
                raise UsageError(
                    f"Sink {name!r} cannot write to {to!r}.",
                    hint="Give it a URL, a target of hw.sinks, a Sink, or a function of the changes.",
                )
            to = FunctionSink(to)
        self._feeds[name] = Feed(self._pipeline_directory, name, view, to, start or "now")

    def _join(self, group: str, name: str, feed: Feed) -> None:
        """Lets a sink move with the others of a group. Raises `UsageError`."""
        check_name("group", group)
        members, sink = self._groups.setdefault(group, {}), feed.sink
        assert isinstance(sink, TargetSink), "it has a target"
        here = sink.outside.transaction
        if here is None or any(other.outside.transaction != here for other in members.values()):
            raise UsageError(
                f"Sink {name!r} cannot move together with the group {group!r}.",
                hint="All of a group are written in one transaction: tables of one PostgreSQL database, by one user.",
            )
        # The group is made when it is asked for, of all of them.
        members[name] = sink

    def _feed_of(
        self,
        name: str,
        view: str,
        to: Target,
        key: tuple[str, ...],
        start: Start | None,
        dead_letter: str | None,
    ) -> Feed:
        if to.needs_key and not key:
            raise UsageError(
                f"Sink {name!r} needs a key: {to.address} has one row for each.",
                hint='Name the columns that tell the rows of the view apart: key="id", or key=["country", "day"].',
            )
        if key and start == "now":
            raise UsageError(
                f"Sink {name!r} has a key, so its target holds the content of the view.",
                hint="Leave out start='now'.",
            )
        topic = _letters_topic(name, dead_letter)
        assignment = Assignment(self._pipeline_directory.name, name, view, key)
        sink = TargetSink(to, assignment, self._pipeline_directory, self._log, topic)
        return Feed(self._pipeline_directory, name, view, sink, start or "content")

    def _messages_of(
        self, name: str, view: str, to: Channel, key: tuple[str, ...], dead_letter: str | None
    ) -> MessageSink:
        if to.needs_key and not key:
            raise UsageError(
                f"Sink {name!r} needs a key: {to.kind} tells by it which row a message is about.",
                hint='Name the columns that tell the rows of the view apart: key="id", or key=["country", "day"].',
            )
        letters = DeadLetters(self._log, _letters_topic(name, dead_letter), view)
        return MessageSink(name, view, to, key, self._pipeline_directory, letters)


def _letters_topic(sink: str, given: str | None) -> str:
    return check_name("topic", f"{sink}.dead_letters" if given is None else given)


class Connected:
    """The connections of an application: its sources and its sinks."""

    name: str
    directory: Path
    _connections: Connections

    def source(self, name: str, source: str | Callable[..., Source], **options: object) -> Source:
        """An outside system whose changes become records of the topics under `name`, as soon as the application runs.

        `source` is a URL with the `options` of its connector; or a callable that makes a `Source`, such as a class. It
        is called with the source's `Home` and the `options`.
        """
        return self._connections.add_source(name, source, options)

    def postgres(
        self,
        url: str,
        *,
        tables: str | Sequence[str] = (),
        schemas: str | Sequence[str] = (),
        name: str | None = None,
        password_file: str | Path | None = None,
        **options: Unpack[CaptureSettings],
    ) -> DatabaseSource:
        """Tables of a PostgreSQL database as topics: `orders` is the topic `shop.orders`, if the source is `shop`.

        `tables` may contain patterns (`"*"`, `"billing.*"`); of `schemas`, all tables are captured. The source has the
        application's name unless it is given a `name`. For `options` see `CaptureOptions`. Nothing is done to the
        database before the application is run or captured.
        """
        chosen = {"tables": tables, "schemas": schemas, "password_file": password_file, **options}
        made = self.source(name or self.name, url, **chosen)
        assert isinstance(made, DatabaseSource)
        return made

    @property
    def sources(self) -> Mapping[str, Source]:
        """The systems whose changes become records."""
        return dict(self._connections.sources)

    def sink(
        self,
        name: str,
        *,
        view: str,
        to: str | Sink | Target | Channel | Callable[[Changes], object],
        key: str | Sequence[str] = (),
        start: Start | None = None,
        dead_letter: str | None = None,
        group: str | None = None,
        **options: object,
    ) -> None:
        """Keeps an outside target in sync with a view while the application runs.

        `to` is a target such as `hw.sinks.Postgres(...)`, a channel such as `hw.sinks.Slack(...)`, a URL with the
        `options` of its connector, a function that is called with each change, or a `Sink`. A target holds the view by
        `key`, the columns that tell its rows apart, which is checked; a channel with a `key` sends one message for a
        row that changed. Rows that they refuse go to the topic `dead_letter` ("NAME.dead_letters" unless given).

        Targets start with the content of the view; channels, webhooks and functions start with the changes from now on,
        unless `start` is "content".

        Sinks of one `group` move together: at any time, all their targets show the same position. They must be tables
        of one PostgreSQL database, which are written in one transaction.
        """
        self._connections.add_sink(name, view, to, key, start, dead_letter, group, options)

    def sink_function(
        self, name: str | None = None, *, view: str, start: Start = "now"
    ) -> Callable[[SinkFunction], SinkFunction]:
        """A decorator: calls a function with each change of a view, as a sink that has the function's name.

        The function gets `hw.sinks.Changes`: Arrow rows with their weights, and the position that they lead to. It is
        called in order, at least once. When it raises, the same changes come again after a pause.
        """

        def add(function: SinkFunction) -> SinkFunction:
            self.sink(name or function.__name__, view=view, to=function, start=start)
            return function

        return add

    def webhook_out(
        self,
        name: str,
        *,
        view: str,
        url: str,
        secret: str | Sequence[str],
        start: Start = "now",
        allow_private: bool = False,
    ) -> None:
        """A sink that posts each change of a view as JSON, signed as Standard Webhooks are.

        Several secrets each add a signature. It only sends to public addresses, over HTTPS, unless `allow_private`.
        """
        self.sink(name, view=view, to=url, start=start, secret=secret, allow_private=allow_private)

    @property
    def sinks(self) -> Mapping[str, Feed]:
        """The sinks, each with what feeds it."""
        return dict(self._connections.sinks)

    def wait(
        self, position: Position, *, sinks: Sequence[str] | None = None, timeout: Duration = timedelta(seconds=30)
    ) -> None:
        """Returns when the targets of these sinks (all, if none are named) have everything up to a position.

        `position` is what a write returned. Raises `SinksBehind`, with each one's position, if they do not have it in
        time, and `UnknownSink`.
        """
        check_position(position)
        feeds = chosen(self.sinks, self.sinks if sinks is None else sinks)
        with Reader(self.directory) as reader:
            wait_for(reader, feeds, position, duration_of("timeout", timeout))
