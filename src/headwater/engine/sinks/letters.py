"""Dead letters of a sink: the rows that its target refuses, each with the target's own words, in a topic of the log."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from headwater.errors import HeadwaterError, TargetFailed
from headwater.log.port import Log
from headwater.log.topic import DEAD_LETTER_SCHEMA
from headwater.model.encoding import json_rows

REASON_LENGTH_MAX = 2000


class DeadLetters:
    """Keeps refused rows, at least once, in a topic that is created with the first of them."""

    def __init__(self, log: Log, topic: str, view: str) -> None:
        self._log, self.topic, self._view = log, topic, view
        self.refused = 0

    def keep(self, rows: pa.Table, reasons: Sequence[str]) -> None:
        """Returns when the rows are in the log. Raises `TargetFailed`, so that the delivery comes again."""
        letters = [
            {
                "topic": self._view,
                "reason": reason[:REASON_LENGTH_MAX],
                "original": json.dumps(row, ensure_ascii=False).encode(),
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
