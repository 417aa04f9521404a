"""Dead letters of a sink: the rows that its target refuses, each with the target's own words, in a topic of the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError, TargetFailed, UnknownTopic
from headwater.log.port import Log
from headwater.log.topic import DEAD_LETTER_SCHEMA
from headwater.model.encoding import json_rows

REASON_LENGTH_MAX = 2000


class DeadLetters:
    """Keeps refused rows, at least once, in a topic that is created with the first of them."""

    def __init__(self, log: Log, topic: str, view: str) -> None:
        self._log, self.topic, self._view = log, topic, view
        self.refused = 0
        self._diverted: Callable[[pa.Table, Sequence[str]], None] | None = None

    def keep(self, rows: pa.Table, reasons: Sequence[str]) -> None:
        """Returns when the rows are in the log. Raises `TargetFailed`, so that the delivery comes again."""
        if self._diverted is not None:
            self._diverted(rows, reasons)
            return
        letters = [
            {
                "topic": self._view,
                "reason": reason[:REASON_LENGTH_MAX],
                "original": text_of(row).encode(),
            }
            for row, reason in zip(json_rows(rows), reasons, strict=True)
        ]
        if not letters:
            return
        try:
            self._log.create(self.topic, DEAD_LETTER_SCHEMA, exist_ok=True)
            self._log.append(self.topic, letters)
        except HeadwaterError as error:
            raise TargetFailed(f"Refused rows cannot be kept in {self.topic!r}: {error.message}") from error
        self.refused += len(letters)

    @contextmanager
    def diverted(self, to: Callable[[pa.Table, Sequence[str]], None]) -> Iterator[None]:
        """Within the block, refused rows are not kept, but told to somebody who waits."""
        self._diverted = to
        try:
            yield
        finally:
            self._diverted = None

    def originals(self) -> frozenset[str]:
        """The rows of the view that were refused, ever, each as `text_of` writes it. Raises `TargetFailed`."""
        try:
            records: list[Any] = [record.value for record in self._log.read(self.topic, start="earliest")]
        except UnknownTopic:
            return frozenset()
        except HeadwaterError as error:
            raise TargetFailed(f"The dead letters in {self.topic!r} cannot be read: {error.message}") from error
        return frozenset(one["original"].decode() for one in records if one["topic"] == self._view)


def text_of(row: Mapping[str, Any]) -> str:
    """A row as a dead letter has it."""
    return json.dumps(row, ensure_ascii=False)
