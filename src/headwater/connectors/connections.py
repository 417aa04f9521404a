"""The connections of an application: its sources and its sinks, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from headwater.connectors.registry import open_sink
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.function import FunctionSink
from headwater.engine.sinks.port import Sink, Start
from headwater.engine.subscription import Changes
from headwater.errors import UsageError
from headwater.system.names import check_name


class Connections:
    """What an application declares; nothing outside is touched before it runs."""

    def __init__(self, pipeline_directory: Path) -> None:
        self._pipeline_directory = pipeline_directory
        self.sinks: dict[str, Feed] = {}

    def add_sink(
        self,
        name: str,
        view: str,
        to: str | Sink | Callable[[Changes], object],
        start: Start,
        options: Mapping[str, object],
    ) -> None:
        """A sink, by its URL and options, as it is, or as a function. Raises `UsageError`."""
        check_name("sink", name)
        if name in self.sinks:
            raise UsageError(f"There are two sinks called {name!r}.", hint="Give one of them another name.")
        if start not in get_args(Start):
            raise UsageError(f"A sink cannot start with {start!r}.", hint="Use 'now' or 'content'.")
        if isinstance(to, str):
            to = open_sink(name, view, to, options)
        elif options:
            raise UsageError(f"Options of a sink go with a URL: {', '.join(options)}.", hint="Give them to the sink.")
        elif not isinstance(to, Sink):
            to = FunctionSink(to)
        self.sinks[name] = Feed(self._pipeline_directory, name, view, to, start)
