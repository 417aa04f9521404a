"""Headwater: every change in one replayable log, and everything else derived from it."""

from headwater.errors import HeadwaterError
from headwater.log.commit import Commit, Committed, Conflict
from headwater.log.consumer import Consumer
from headwater.log.embedded import EmbeddedLog
from headwater.log.embedded import open_log as open  # noqa: A004
from headwater.log.lag import Lag, LagLimits
from headwater.log.port import Log
from headwater.log.producer import Producer, ProducerStats
from headwater.log.reader import Batch
from headwater.log.topic import Topic
from headwater.model.position import START, Position
from headwater.model.record import Record

__all__ = [
    "START",
    "Batch",
    "Commit",
    "Committed",
    "Conflict",
    "Consumer",
    "EmbeddedLog",
    "HeadwaterError",
    "Lag",
    "LagLimits",
    "Log",
    "Position",
    "Producer",
    "ProducerStats",
    "Record",
    "Topic",
    "open",
]
