"""Headwater: every change in one replayable log, and everything else derived from it."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headwater import errors
from headwater.errors import Conflict, HeadwaterError
from headwater.log.commit import Commit, Committed
from headwater.log.consumer import Consumer
from headwater.log.lag import Lag, LagLimits
from headwater.log.port import Log
from headwater.log.producer import Producer, ProducerStats
from headwater.log.reading import Batch
from headwater.log.topic import Topic
from headwater.model.position import START, Position
from headwater.model.record import Record

if TYPE_CHECKING:
    from headwater.app import App
    from headwater.log.opening import open_log as open  # noqa: A004

__all__ = [
    "START",
    "App",
    "Batch",
    "Commit",
    "Committed",
    "Conflict",
    "Consumer",
    "HeadwaterError",
    "Lag",
    "LagLimits",
    "Log",
    "Position",
    "Producer",
    "ProducerStats",
    "Record",
    "Topic",
    "__version__",
    "errors",
    "open",
]

__version__ = version("headwater")


_LAZY = {"App": ("headwater.app", "App"), "open": ("headwater.log.opening", "open_log")}
"""Imported when they are first asked for: whoever does not need them does not load what they bring along."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
