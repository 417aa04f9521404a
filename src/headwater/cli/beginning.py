"""The beginning of an input: how many records were read, and what tells them from those of another input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import UsageError

# The rows of a Parquet file that are compared; of JSON lines every one is.
ROWS_COMPARED_MAX = 100
_DIGEST_BYTES = 16
_HINT = "Use another --resume name for another input."


@dataclass(frozen=True, slots=True)
class Beginning:
    """This many records, and a fingerprint of their content."""

    records: int = 0
    fingerprint: str = ""

    def to_json(self) -> dict[str, object]:
        """As the bookmark keeps it."""
        return {"records": self.records, "fingerprint": self.fingerprint}


def beginning_of(bookmark: object) -> Beginning:
    """What a bookmark remembers. Raises `UsageError` if it remembers something else."""
    if bookmark is None:
        return Beginning()
    match bookmark:
        case {"records": int(records), "fingerprint": str(fingerprint)}:
            return Beginning(records, fingerprint)
    raise UsageError("The --resume name is taken by something that is not an append.", hint="Use another name.")


class LineReading:
    """Reads an input of lines again and compares it with the beginning that is known."""

    def __init__(self, known: Beginning) -> None:
        self._known = known
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._records = 0

    def read(self, lines: list[bytes]) -> Beginning:
        """The beginning that ends with these lines. Raises `UsageError` if it should be the known one and is not."""
        self._digest.update(b"".join(line + b"\n" for line in lines))
        self._records += len(lines)
        found = Beginning(self._records, self._digest.hexdigest())
        if found.records == self._known.records:
            check_same(self._known, found)
        return found


def table_beginning(first_rows: pa.Table, records: int) -> Beginning:
    """The beginning of a table of which the first rows are known; as many as are compared, or all."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    compared = first_rows.slice(0, min(records, ROWS_COMPARED_MAX))
    for name, column in zip(compared.column_names, compared.columns, strict=True):
        text = column.combine_chunks().to_string(window=ROWS_COMPARED_MAX)
        digest.update(f"{name}\n{text}\n".encode())
    return Beginning(records, digest.hexdigest())


def check_same(known: Beginning, found: Beginning) -> None:
    """Raises `UsageError` if the input does not begin as it did before."""
    if known != found:
        raise UsageError(
            f"The input does not begin with the {known.records:,} records that were read under this --resume name.",
            hint=_HINT,
        )


def check_not_shorter(known: Beginning, records: int) -> None:
    """Raises `UsageError` if the input has fewer records than were read before."""
    if records < known.records:
        raise UsageError(
            f"The input has {records:,} records, and {known.records:,} were read before under this --resume name.",
            hint=_HINT,
        )
