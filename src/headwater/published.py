"""What an application has published: its views, as readers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.engine.books import Books, books_of
from headwater.engine.candidates import SAMPLES, Candidate, ViewDiff, candidate, decide, diff
from headwater.engine.manifest import Size
from headwater.engine.publication import Base, Excluded, Generation, Hold, Wish
from headwater.engine.reading import WAIT, Reader, Snapshot
from headwater.engine.subscription import Subscription
from headwater.errors import UnknownView, UsageError, ViewNotKept
from headwater.model.durations import Duration, duration_of
from headwater.model.position import Position, check_position

if TYPE_CHECKING:
    from headwater.engine.querying import Answer
    from headwater.engine.topic_rows import TopicRows

DECISION = timedelta(seconds=60)
"""How long the process that runs an application may take to switch, unless the call says otherwise."""


class Published:
    """The views of an application: their rows, their changes, and the state behind them. Reading needs no Spark."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._views: dict[str, str] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._not_kept: Mapping[str, str] = {}
        self._reader: Reader | None = None

    @property
    def views(self) -> Mapping[str, str]:
        """The SQL of every view."""
        return dict(self._views)

    @property
    def not_kept(self) -> Mapping[str, str]:
        """The views that can be planned but not run, each with the reason; known once the pipeline has begun."""
        return dict(self._not_kept)

    def read(
        self, view: str, *, at_least: Position | None = None, at: Position | None = None, timeout: Duration = WAIT
    ) -> pa.Table:
        """The rows of a view, at a position that is at least the given one, or exactly `at` it; see `snapshot`."""
        return self.snapshot([view], at_least=at_least, at=at, timeout=timeout).tables[view]

    def snapshot(
        self,
        views: Sequence[str] | None = None,
        *,
        at_least: Position | None = None,
        at: Position | None = None,
        timeout: Duration = WAIT,
    ) -> Snapshot:
        """The rows of several views (all, if none are named), all at one position.

        With `at`, they are as they were at an earlier position of theirs, as far back as their changes are kept.
        Raises `ViewPositionGone` beyond that, and `ViewPositionBetween` if they have never been there.
        """
        check_position(at_least)
        check_position(at)
        if at is not None and at_least is not None:
            raise UsageError("A read takes either at or at_least, not both.")
        for view in views or ():
            self._check_kept(view)
            if view not in self._views and self.published() is None:
                raise UnknownView(view, list(self._views))
        kept = [name for name in self._views if name not in self._not_kept] if views is None else list(views)
        reader, seconds = self._open_reader(), duration_of("timeout", timeout)
        return reader.read(kept, at_least, seconds) if at is None else reader.read_at(kept, at, seconds)

    def query(self, sql: str, *, at_least: Position | None = None, timeout: Duration = WAIT) -> pa.Table:
        """Runs SQL over views and topics, all at one position. It is DuckDB's SQL, and only reads.

        `FROM revenue AT POSITION '42'` reads a view or a topic as it was. Raises `InvalidQuery`.
        """
        return self.answer(sql, at_least=at_least, timeout=timeout).table

    def answer(self, sql: str, *, at_least: Position | None = None, timeout: Duration = WAIT) -> Answer:
        """As `query`, with the position that it was answered at."""
        check_position(at_least)
        # DuckDB takes a tenth of a second to import, and only queries need it.
        from headwater.engine.querying import query

        wait = duration_of("timeout", timeout)
        return query(self._open_reader(), sql, topics=self._topic_rows(), at_least=at_least, timeout=wait)

    def subscribe(self, view: str, *, after: Position | None = None) -> Subscription:
        """The content of a view and then every change to it, or every change after a position."""
        self._check_known(view)
        check_position(after)
        return Subscription(self.directory, view, after)

    def published(self) -> Generation | None:
        """The definition of the views that readers see, and its position; None if nothing was published yet."""
        return self._open_reader().current()

    def state(self) -> dict[str, Size]:
        """The size of every part of the state and of every view, on disk."""
        return self._open_reader().sizes()

    def books(self) -> list[Books]:
        """How many records came to each topic of which late ones are dropped, and how many were: in = out + late."""
        current = self.published()
        return [] if current is None else books_of(self._open_reader().store.judged(current.id))

    def generations(self) -> list[Generation]:
        """All definitions of the views that are kept, oldest first."""
        return self._open_reader().generations()

    def holds(self) -> list[Hold]:
        """The changes of views that are kept for sinks that have not received them yet."""
        return self._open_reader().holds()

    def bases(self) -> list[Base]:
        """The bases of the views that readers see, the oldest first: from where on views that remember deleted records
        can be verified. There are at most three."""
        with self._open_reader().store.read() as look:
            current = look.current()
            return [] if current is None else look.bases(current.id)

    def candidate(self) -> Candidate | None:
        """The changed views that wait for a decision, if there are any; after a switch, the former ones."""
        with self._open_reader().store.read() as look:
            return candidate(look)

    def diff(
        self, view: str, *, key: str | Sequence[str] = (), samples: int = SAMPLES, timeout: Duration = WAIT
    ) -> ViewDiff:
        """Compares a view with its candidate, at one position.

        Rows are matched up by `key`, by default the view's key or its first column. Raises `UsageError` if there is no
        candidate, and `NotYet` if it does not catch up in time.
        """
        by = (key,) if isinstance(key, str) else tuple(key) or self.keys.get(view, ())
        return diff(self.directory, view, by, samples=samples, timeout=duration_of("timeout", timeout))

    def switch(self, *, timeout: Duration = DECISION) -> Candidate:
        """Lets readers see the candidate: the changed views, all at once, at one position.

        The former ones are kept up to date, for a `rollback`, until `discard`. Returns what was switched to; raises
        `UsageError` if there is no candidate, and `NotYet` if it does not happen in time.
        """
        return self._decide("switch", timeout)

    def rollback(self, *, timeout: Duration = DECISION) -> Candidate:
        """Lets readers see the former views again, which were kept up to date since a `switch`."""
        return self._decide("switch", timeout, former=True)

    def discard(self, *, timeout: Duration = DECISION) -> Candidate:
        """Discards the candidate, or after a `switch` the former views."""
        return self._decide("discard", timeout)

    def _decide(self, wish: Wish, timeout: Duration, *, former: bool = False) -> Candidate:
        self._stand_aside()
        return decide(self.directory, wish, former=former, timeout=duration_of("timeout", timeout))

    def _stand_aside(self) -> None:
        """Lets go of a pipeline that this process has open and does not run."""

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns by which rows are found, for the views that were given any."""
        return dict(self._keys)

    def dead_letters(self) -> list[Excluded]:
        """The records that views with on_error='dead_letter' have set aside."""
        return self._open_reader().excluded()

    def _topic_rows(self) -> TopicRows | None:
        """The topics that queries see."""
        return None

    def _check_known(self, view: str) -> None:
        if view not in self._views:
            raise UnknownView(view, list(self._views))

    def _check_kept(self, view: str) -> None:
        if view in self._not_kept:
            raise ViewNotKept(view, self._not_kept[view])

    def _open_reader(self) -> Reader:
        self._reader = self._reader or Reader(self.directory)
        return self._reader
