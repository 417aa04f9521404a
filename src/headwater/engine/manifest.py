"""Which runs make up an arrangement: what a merge changes in that, and how the merges of many tasks go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.engine.runs import Run
from headwater.errors import InternalError


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run that counts no more: the `rows` rows with low <= hash <= high, behind the first `before` ones."""

    run: Run
    low: int
    high: int
    before: int
    rows: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Pieces of runs, and the runs that take their place: both add up to the same Z-set.

    Tasks that own different hash ranges may take different pieces of the same run.
    """

    removed: tuple[Piece, ...]
    added: tuple[Run, ...]

    def to_json(self) -> list[Any]:
        pieces = [[*piece.run.to_json(), piece.low, piece.high, piece.before, piece.rows] for piece in self.removed]
        return [pieces, [run.to_json() for run in self.added]]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Merge:
        pieces, runs = value
        return cls(
            tuple(Piece(Run.from_json(piece[:-4]), *(int(number) for number in piece[-4:])) for piece in pieces),
            tuple(Run.from_json(run) for run in runs),
        )


@dataclass(frozen=True, slots=True)
class Replacement:
    """What merges do to a manifest: whole runs that leave it, and runs that enter it."""

    removed: tuple[Run, ...]
    added: tuple[Run, ...]


def replacement(merges: Iterable[Merge]) -> Replacement:
    """Puts the merges of all tasks together. What no task took of a run stays, as runs with a narrower range."""
    pieces: dict[Run, list[Piece]] = {}
    added: list[Run] = []
    for merge in merges:
        added += merge.added
        for piece in merge.removed:
            pieces.setdefault(piece.run, []).append(piece)
    for run, taken in pieces.items():
        added += _remainders(run, sorted(taken, key=lambda piece: piece.low))
    return Replacement(tuple(pieces), tuple(added))


class Manifest:
    """The runs of every arrangement of a generation, in memory."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs: dict[str, dict[Run, None]] = {}
        self._add(runs)

    def apply(self, added: Iterable[Run], merged: Replacement) -> None:
        """Takes a commit over."""
        for run in merged.removed:
            del self._runs[run.arrangement][run]
            if not self._runs[run.arrangement]:
                del self._runs[run.arrangement]
        self._add(merged.added)
        self._add(added)

    def runs(self) -> dict[str, list[Run]]:
        """A copy: arrangements that have rows, and their runs."""
        return {arrangement: list(runs) for arrangement, runs in self._runs.items()}

    def _add(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._runs.setdefault(run.arrangement, {})[run] = None


@dataclass(frozen=True, slots=True)
class Size:
    """How large an arrangement is on disk."""

    rows: int
    bytes: int
    runs: int

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.runs + other.runs)


def sizes(runs: Mapping[str, Sequence[Run]]) -> dict[str, Size]:
    """The size of each arrangement."""
    return {
        arrangement: Size(sum(run.rows for run in found), sum(run.bytes for run in found), len(found))
        for arrangement, found in runs.items()
    }


def _remainders(run: Run, taken: Sequence[Piece]) -> list[Run]:
    left: list[Run] = []
    low, counted = run.low, 0
    for piece in taken:
        if piece.low < low or piece.high > run.high or piece.before < counted:
            raise InternalError(f"Two merges took the same rows of {run.arrangement!r}, file {run.file}.")
        if piece.before > counted:
            left.append(run.with_part(low, piece.low - 1, piece.before - counted))
        low, counted = piece.high + 1, piece.before + piece.rows
    if counted > run.rows:
        raise InternalError(f"A merge took more rows of {run.arrangement!r} than file {run.file} has.")
    if counted < run.rows:
        left.append(run.with_part(low, run.high, run.rows - counted))
    return left
