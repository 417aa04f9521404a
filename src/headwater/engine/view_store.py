"""The view store port: which runs hold a pipeline's state and views, and the one commit that moves all of them on.

Runs are blobs that nothing names until a commit does. So a batch has happened completely when its commit has, and not
at all before; what a failed task leaves is a blob without a name, and `collect` removes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from headwater.engine.blobs import Blobs
from headwater.engine.definition import Definition
from headwater.engine.judging import Judged
from headwater.engine.manifest import Size, sizes
from headwater.engine.publication import (
    Base,
    BatchCommit,
    Collected,
    Excluded,
    Generation,
    Hold,
    Publication,
    Switch,
    ViewChange,
    Wish,
)  # fmt: skip
from headwater.engine.runs import Run
from headwater.errors import UsageError
from headwater.model.position import Position

HISTORY_BATCHES_MAX = 1000
HISTORY_AGE_MAX = timedelta(hours=1)
"""Changes are kept for this many batches and so long, whichever ends first; those that a follower needs, until it has
them."""

CHANGES_BYTES_MAX = 64 << 20
"""What followers alone need of a view's changes is kept change by change up to this size, and squashed beyond it."""

HELD_CHANGES = 64
"""A follower takes this many changes before it asks for more; they are not squashed while it takes them."""

GRACE = timedelta(minutes=15)
"""Blobs that nothing names are kept so long: a task that runs may be about to hand them in."""

REPLACED_KEPT = timedelta(minutes=1)
"""Blobs that a commit named, and nothing names any more, are kept so long: a reader may be about to open them. One that
comes later finds that there is a newer commit."""

RETIRED_KEPT = timedelta(hours=1)
"""A generation that was replaced stays so long: for readers and subscribers that are not done with it, and for a
rollback."""


class Look(Protocol):
    """One state of a store, however much is asked of it; good until the block of `ViewStore.read` ends."""

    def current(self) -> Generation | None:
        """The generation that readers see; None before one was promoted."""
        ...

    def generation(self, generation: int) -> Generation | None:
        """One generation; None if it is not kept."""
        ...

    def generations(self) -> list[Generation]:
        """All generations that are kept, the oldest first."""
        ...

    def runs(self, generation: int, arrangements: Sequence[str] | None = None) -> list[Run]:
        """The runs of a generation: of all its arrangements or of some."""
        ...

    def published(self, generation: int, last: int | None = None) -> list[Publication]:
        """The commits of a generation that are kept, or the last of them, the oldest first."""
        ...

    def excluded(self, generation: int) -> list[Excluded]:
        """The records that views of a generation refuse."""
        ...

    def judged(self, generation: int) -> dict[str, Judged]:
        """What is known of the lateness of records at a generation's position, by topic."""
        ...

    def changes(self, generation: int, view: str, after: int, until: int | None = None) -> list[ViewChange]:
        """The changes of a view by the batches behind one, or up to another, in order, as far as they are kept."""
        ...

    def changed_rows(self, generation: int, view: str, after: int) -> int:
        """How many rows these changes have together."""
        ...

    def forgotten(self, generation: int, view: str) -> ViewChange | None:
        """The last change of a view that is no longer kept, without its runs; None if all are."""
        ...

    def batch_at(self, generation: int, view: str, position: Position) -> int:
        """The last batch of a generation that does not go beyond a position, as far as is kept; 0 without one.

        No change of the view that is kept lies between that batch and the position.
        """
        ...

    def is_kept(self, generation: int, view: str) -> bool:
        """Whether a view's content and changes are kept; of a generation long retired only what followers need is."""
        ...

    def holds(self) -> list[Hold]:
        """What is kept for each follower."""
        ...

    def bases(self, generation: int) -> list[Base]:
        """The bases of a generation, the oldest first."""
        ...

    def base_runs(self, base: Base) -> list[Run]:
        """The runs of all arrangements of a base; none if it is not kept any more."""
        ...

    def home(self, generation: int, view: str) -> int:
        """The generation that has the history of a view: a later one, if that took the view over unchanged."""
        ...


class ViewStore(ABC):
    """The store of one pipeline. One driver at a time commits to it; any number of processes read.

    All methods may raise `StoreUnusable`, `StoreUnavailable`, `StoreBusy`, `DiskFull` and `TooManyOpenFiles`. Methods
    of the driver raise `UsageError` in a store that was opened for reading.
    """

    @property
    @abstractmethod
    def address(self) -> str:
        """What another process opens the same store with."""

    @property
    @abstractmethod
    def blobs(self) -> Blobs:
        """Where the runs are."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def read(self) -> AbstractContextManager[Look]:
        """One state of the store: what is committed when the block begins. A store that is not there yet is empty."""

    @abstractmethod
    def version(self) -> int:
        """A number that is another one whenever somebody else has committed since it was asked for."""

    @abstractmethod
    def ticket(self) -> int:
        """Take one, look, then `wait` with it: no commit in between is missed."""

    @abstractmethod
    def wait(self, ticket: int, seconds: float) -> None:
        """Returns when something was committed after the ticket was taken, perhaps earlier, or after so long."""

    @abstractmethod
    def take_over(self) -> int:
        """A driver calls it once, before anything else: a new epoch, and no commit of an older one succeeds any more.

        A commit that a killed driver left half done either happened before this returns, or never will.
        """

    @abstractmethod
    def check_epoch(self, epoch: int) -> None:
        """Raises `Fenced` if another driver has taken over since this epoch, for a driver with nothing to commit."""

    @abstractmethod
    def open_generation(self, fingerprint: str, definition: Definition, *, fresh: bool = False) -> Generation:
        """The generation with this fingerprint, or a new one that is building until a commit promotes it.

        With `fresh` it is a new one in any case, and one with this fingerprint is never continued.

        Others that are still building are given up; those that never had a batch leave nothing behind.
        """

    @abstractmethod
    def commit(self, commit: BatchCommit) -> None:
        """Makes a batch true, durably: all of it, or nothing if this raises, but for `Indeterminate`.

        After `Indeterminate` the generation's last batch tells. Raises `Fenced` when another driver has taken over, and
        `InternalError` if the batch is not the one after the last, goes back, changes a view at a position that was
        published, or names a blob or replaces a run that is not there.
        """

    @abstractmethod
    def switch(self, switch: Switch) -> Generation:
        """Lets readers see a generation that was building, durably: all of it, or nothing if this raises.

        It has the position, the batch number and the excluded records of the one that was current, which is retired.
        Changes, followers and places of unchanged views are those of the new generation from now on. Others begin with
        it: who follows them gets the difference. Raises as `commit`, and `InternalError` if the generation has batches
        and is not where the current one is.
        """

    @abstractmethod
    def wish(self, generation: int, wish: Wish | None) -> None:
        """Asks the driver to do something with a generation that is building. For any process.

        Raises `UsageError` if it is not building (any more).
        """

    @abstractmethod
    def discard(self, generation: int, epoch: int) -> None:
        """Gives up a generation that is building, with all that it has. For the driver. Raises `Fenced`."""

    @abstractmethod
    def runs(self, generation: int) -> dict[str, list[Run]]:
        """The runs of every arrangement that has rows, as of the generation's last commit.

        For the driver, before each batch: it costs little while nobody else commits.
        """

    @abstractmethod
    def collect(self) -> Collected:
        """Removes what nobody needs: old changes, generations long retired, blobs that nothing names.

        For the driver, between two batches. Changes that are kept may move into fewer blobs, and those that only
        followers need may be squashed: several, one after the other, become the difference that they made together. How
        long and how large is said by the constants of this module.
        """

    @abstractmethod
    def hold(self, follower: str, view: str, places: Mapping[int, int], batch: int) -> int:
        """Keeps what a follower has still to get of a view, and nothing that it held before. For any process.

        `places` has the batch up to which it certainly has every change, by generation. Of the newest of them it was
        handed everything up to `batch`; it may take what comes up to the batch that this returns, and then asks again.
        Without places nothing is kept for it any longer.
        """

    @abstractmethod
    def take_base(
        self, generation: int, epoch: int, offsets: Mapping[str, Mapping[int, int]], kept: Collection[int] = ()
    ) -> Base:
        """Keeps the state of a generation as its last batch left it, and those of its bases taken at `kept` batches.

        Its other bases go. A base costs no copy: runs never change, and those of a base stay until it goes. `offsets`
        are kept with it. For the driver. Raises `Fenced`.
        """

    @abstractmethod
    def release(self, kept: Mapping[str, str]) -> None:
        """Keeps nothing any longer for followers other than these, each with its view. For the driver."""

    @abstractmethod
    def delete_state(self) -> None:
        """Deletes everything and fences the driver that runs: the next run rebuilds all of it from the log."""

    def current(self) -> Generation | None:
        """The generation that readers see, if one was promoted."""
        with self.read() as look:
            return look.current()

    def generation(self, generation: int) -> Generation:
        """One generation as it is now. Raises `UsageError` if it is not kept."""
        with self.read() as look:
            found = look.generation(generation)
        if found is None:
            raise UsageError(f"Generation {generation} does not exist.", hint="It was deleted: open it again.")
        return found

    def generations(self) -> list[Generation]:
        """All generations that are kept, the oldest first."""
        with self.read() as look:
            return look.generations()

    def published(self, generation: int) -> list[Publication]:
        """The commits of a generation that are kept, the oldest first."""
        with self.read() as look:
            return look.published(generation)

    def excluded(self, generation: int) -> list[Excluded]:
        """The records that views of a generation refuse."""
        with self.read() as look:
            return look.excluded(generation)

    def bases(self, generation: int) -> list[Base]:
        """The bases of a generation, the oldest first."""
        with self.read() as look:
            return look.bases(generation)

    def judged(self, generation: int) -> dict[str, Judged]:
        """What is known of the lateness of records at a generation's position, by topic."""
        with self.read() as look:
            return look.judged(generation)

    def sizes(self, generation: int) -> dict[str, Size]:
        """The size of every arrangement."""
        return sizes(self.runs(generation))
