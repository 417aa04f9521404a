"""Headwater: every change in one replayable log, and everything else derived from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwater import errors
from headwater.errors import Conflict, HeadwaterError
from headwater.log.commit import AppendPosition, Commit, Committed
from headwater.log.consumer import Consumer
from headwater.log.groups import Member, OffsetReset
from headwater.log.lag import Lag, LagLimits
from headwater.log.port import Log
from headwater.log.producer import Producer, ProducerStats
from headwater.log.reading import Batch
from headwater.log.topic import Topic
from headwater.model.position import START, Position
from headwater.model.record import Record

if TYPE_CHECKING:
    from headwater import sinks
    from headwater.app import App
    from headwater.log.opening import open_log as open  # noqa: A004

    __version__: str

__all__ = [
    "START",
    "App",
    "AppendPosition",
    "Batch",
    "Commit",
    "Committed",
    "Conflict",
    "Consumer",
    "HeadwaterError",
    "Lag",
    "LagLimits",
    "Log",
    "Member",
    "OffsetReset",
    "Position",
    "Producer",
    "ProducerStats",
    "Record",
    "Topic",
    "__version__",
    "errors",
    "open",
    "sinks",
]


def __getattr__(name: str) -> Any:
    """`App`, `open` and `sinks` are imported when first asked for: programs without them do not load them.

    So is what looks up the version: it loads the parser of mails.
    """
    if name == "__version__":
        from importlib.metadata import version

        return version("headwater")
    if name == "App":
        from headwater.app import App

        return App
    if name == "open":
        from headwater.log.opening import open_log

        return open_log
    if name == "sinks":
        return import_module("headwater.sinks")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
