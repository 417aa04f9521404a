"""The life of a capture, as one table of transitions.

    state      | what is done in it
    -----------|------------------------------------------------------------------------------------------------
    not begun  | nothing is known; checks, then publications
    creating   | the slot is being made; if it is there, it is ours
    snapshot   | the slot is there; the first snapshot is being read, and nothing of it is in the log
    streaming  | the first snapshot is in the log; the stream is followed, and jobs read tables meanwhile
    lost       | the database cannot resume the stream; a new slot is made, and a job compares every table
    paused     | nothing; the database keeps its changes
    dropped    | slot and publications were removed; the next run starts over

The rules:

1. The state is in the log, in a bookmark that any process may move, and every move expects the value that it was made
   for: of two processes that move at once, one looks again. So a killed process loses nothing.
2. `lost` is not stored. It is found by the one that asks the database, and the one that starts asks again.
3. A pause is stored beside the state that it interrupts, so that a pause never conflicts with a commit of the stream,
   and resuming returns to that state. Dropping, too, can be undone, as long as nothing was removed.
4. A transition that the table does not have is a bug, and raises `InternalError`.
5. The jobs are part of the state: a transition starts with new ones, and a new request is added to those there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from headwater.errors import InternalError
from headwater.log.commit import Commit
from headwater.log.port import Log


class State(Enum):
    """Where a capture is in its life; the value is what the bookmark and the status say."""

    NEW = "not begun"
    CREATING = "creating"
    SNAPSHOT = "snapshot"
    STREAMING = "streaming"
    LOST = "lost"
    PAUSED = "paused"
    DROPPED = "dropped"


class Event(Enum):
    """What moves a capture on."""

    BEGIN = "begin"
    SLOT_CREATED = "slot created"
    RESTART = "restart"
    SNAPSHOT_COMMITTED = "snapshot committed"
    SLOT_LOST = "slot lost"
    SLOT_REPLACED = "slot replaced"
    PAUSE = "pause"
    RESUME = "resume"
    DROP = "drop"
    UNDO_DROP = "undo drop"


class _Before:
    """The state that was interrupted."""


BEFORE: Final = _Before()

_ANY: Mapping[Event, State] = {Event.PAUSE: State.PAUSED, Event.DROP: State.DROPPED}

TRANSITIONS: Mapping[State, Mapping[Event, State | _Before]] = {
    State.NEW: {**_ANY, Event.BEGIN: State.CREATING},
    State.CREATING: {**_ANY, Event.BEGIN: State.CREATING, Event.SLOT_CREATED: State.SNAPSHOT},
    State.SNAPSHOT: {
        **_ANY,
        Event.RESTART: State.CREATING,
        Event.SNAPSHOT_COMMITTED: State.STREAMING,
        Event.SLOT_LOST: State.LOST,
    },
    State.STREAMING: {**_ANY, Event.SLOT_LOST: State.LOST},
    State.LOST: {**_ANY, Event.SLOT_LOST: State.LOST, Event.SLOT_REPLACED: State.STREAMING},
    State.PAUSED: {Event.RESUME: BEFORE, Event.DROP: State.DROPPED},
    State.DROPPED: {
        **_ANY,
        Event.BEGIN: State.CREATING,
        Event.SLOT_LOST: State.DROPPED,
        Event.UNDO_DROP: BEFORE,
    },
}


def after(state: State, event: Event, before: State = State.NEW) -> State:
    """The state that an event leads to; `before` is the one that `state` has interrupted. Raises `InternalError`."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise InternalError(f"A capture that is {state.value!r} cannot take the event {event.value!r}.")
    return before if isinstance(following, _Before) else following


class Life:
    """The state of one capture. Several processes may have one; the log is what they share."""

    def __init__(self, log: Log, bookmark: str, paused: str) -> None:
        """`bookmark` holds state and jobs, `paused` whether it is paused."""
        self._log, self._bookmark, self._paused = log, bookmark, paused
        self._lost = False

    @property
    def stored(self) -> dict[str, Any]:
        """State and jobs as the bookmark has them; empty before the beginning."""
        value: Any = self._log.bookmark(self._bookmark)
        return value or {}

    @property
    def is_paused(self) -> bool:
        return self._log.bookmark(self._paused) is True

    @property
    def state(self) -> State:
        return State.PAUSED if self.is_paused else self.uninterrupted

    @property
    def uninterrupted(self) -> State:
        """The state, or that which a pause has interrupted."""
        return self._interrupted(self.stored)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return jobs_in(self.stored)

    def pause(self) -> None:
        """Pauses capture in whichever process it runs."""
        if not self.is_paused:
            after(self.state, Event.PAUSE)
            self._set_paused(paused=True)

    def resume(self) -> None:
        """Ends a pause, if there is one."""
        if self.is_paused:
            after(self.state, Event.RESUME, self.uninterrupted)
            self._set_paused(paused=False)

    def lose(self) -> None:
        """The database cannot resume the stream; unless the capture was dropped, which is why."""
        self._lost = after(self.uninterrupted, Event.SLOT_LOST) is State.LOST

    def move(self, event: Event) -> None:
        """Moves on without a job, by a commit that has nothing else, however often others move meanwhile."""
        while True:
            stored = self.stored
            with self._log.commit(on_conflict="return") as commit:
                self.add_to(commit, stored, event)
            if commit.conflict is None:
                self.moved()
                return

    def add_to(
        self, commit: Commit, stored: Mapping[str, Any], event: Event, jobs: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Adds a move from what was `stored` to a commit, which conflicts if another process was first; see `moved`."""
        following = after(self._interrupted(stored), event)
        commit.bookmark(self._bookmark, stored_as(following, jobs), expect=stored or None)

    def moved(self) -> None:
        """A commit with a move has happened."""
        self._lost = False

    def ask(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Adds jobs, for whichever process captures."""
        while True:
            stored = self.stored
            with self._log.commit(on_conflict="return") as commit:
                self.add_jobs(commit, stored, jobs)
            if commit.conflict is None:
                return

    def add_jobs(self, commit: Commit, stored: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> None:
        """Adds jobs to a commit, which conflicts unless the bookmark still has what was `stored`."""
        asked = [*jobs_in(stored), *(dict(each) for each in jobs)]
        commit.bookmark(self._bookmark, {**stored, "jobs": asked}, expect=stored or None)

    def undo_drop(self, before: Mapping[str, Any]) -> None:
        """Returns to what was stored before a drop that has removed nothing."""
        following = after(self.uninterrupted, Event.UNDO_DROP, state_in(before))
        with self._log.commit() as commit:
            commit.bookmark(self._bookmark, stored_as(following, jobs_in(before)))

    def _interrupted(self, stored: Mapping[str, Any]) -> State:
        found = state_in(stored)
        return State.LOST if self._lost and found is not State.DROPPED else found

    def _set_paused(self, *, paused: bool) -> None:
        with self._log.commit() as commit:
            commit.bookmark(self._paused, paused)


def state_in(stored: Mapping[str, Any]) -> State:
    """The state that a bookmark's value says."""
    return State(stored["phase"]) if "phase" in stored else State.NEW


def jobs_in(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs that a bookmark's value has."""
    return list(stored.get("jobs", []))


def stored_as(state: State, jobs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """State and jobs as the bookmark has them."""
    return {"phase": state.value, "jobs": [dict(each) for each in jobs]}
