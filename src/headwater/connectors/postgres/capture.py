"""A capture at work: does what its state asks for, and tries again when it was cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict

import psycopg

from headwater.cdc.postgres.lsn import Lsn
from headwater.connectors.capture import lifecycle
from headwater.connectors.capture.lifecycle import State
from headwater.connectors.capture.target import position_of
from headwater.connectors.postgres.applying import Applier
from headwater.connectors.postgres.bootstrap import Bootstrap
from headwater.connectors.postgres.checks import check, publications
from headwater.connectors.postgres.inventory import tables_of
from headwater.connectors.postgres.jobs import new_job
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.outbox import Outbox, Sweeper
from headwater.connectors.postgres.replication import IDLE_SECONDS
from headwater.connectors.postgres.session import Session
from headwater.connectors.postgres.setup import Say, create_slot, drop_slot, publish
from headwater.connectors.postgres.snapshot import Progress
from headwater.connectors.postgres.stream import Stream
from headwater.connectors.postgres.tables import HISTORY_SCHEMA, Event, Tables, TablesMoved
from headwater.connectors.postgres.watching import Watcher
from headwater.errors import (
    CaptureDropped,
    CaptureOvertaken,
    LogBusy,
    QueryFailed,
    SlotLost,
    SourceUnavailable,
    UnknownTopic,
)
from headwater.log.port import Log
from headwater.system.heartbeat import Heart
from headwater.system.lock import FileLock

# How long a capture that was cut off waits before it tries again: at first, and at most.
RETRY_SECONDS = (0.2, 10.0)


def _quiet(_: str) -> None:
    pass


class Capture:
    """One source. `run` until told to stop; everything it knows is in the log, so it can be killed at any time."""

    def __init__(
        self,
        log: Log,
        options: CaptureOptions,
        *,
        say: Say = _quiet,
        progress: Progress = lambda _table, _done, _total: None,
    ) -> None:
        self.log, self.options, self._say = log, options.check(), say
        self.tables, self.life = Tables(log, options), options.life(log)
        self.applier: Applier | None = None
        self._stop = threading.Event()
        self._bootstrap = Bootstrap(log, options, self.tables, self.life, say=say, progress=progress, stop=self._stop)
        self._watcher, self._sweeper = Watcher(log, options, self.tables, say), Sweeper(options, self.tables, say)
        self._lost: SlotLost | None = None
        self._streamed = False

    @property
    def title(self) -> str:
        return f"capture-{self.options.name}"

    def stop(self) -> None:
        """Lets `run` return soon."""
        self._stop.set()

    def run(self, until: Callable[[Capture], bool] = lambda _: False) -> None:
        """Captures until `stop` is called or `until` says so, after each batch. Raises what only a person can mend."""
        with self._alone(), self._beating():
            self._run(until)

    def _beating(self) -> AbstractContextManager[object]:
        """Lets every process see that this one captures; who was stopped before it began has nothing to say."""
        return nullcontext() if self._stop.is_set() else Heart(self.options.directory)

    def _run(self, until: Callable[[Capture], bool]) -> None:
        waits = RETRY_SECONDS[0]
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if self._step(until):
                    return
            except TablesMoved:
                continue
            except (SourceUnavailable, QueryFailed, LogBusy) as error:
                if self._stop.is_set():
                    return
                if time.monotonic() - began > RETRY_SECONDS[1]:
                    waits = RETRY_SECONDS[0]
                self._say(f"{error.message} Trying again in {waits:g} s.")
                self._stop.wait(waits)
                waits = min(waits * 2, RETRY_SECONDS[1])
            except SlotLost as error:
                self._lost = error
                self.life.lose()
            except UnknownTopic as error:
                self._recreate_topic(error)

    def _step(self, until: Callable[[Capture], bool]) -> bool:
        """Does what is to be done in the state that the capture is in; whether the capture has ended."""
        state = self.life.state
        if state is State.PAUSED:
            self._stop.wait(IDLE_SECONDS)
        elif state is State.LOST:
            self._replace_slot()
        elif state is State.DROPPED and (self._streamed or self._lost is not None):
            raise CaptureDropped(self.options.name)
        elif state is State.STREAMING:
            return self._follow(until)
        else:
            self._bring_to_stream(state)
        return False

    def _bring_to_stream(self, state: State) -> None:
        with Session.open(self.options) as session:
            if state is State.SNAPSHOT:
                self._bootstrap.proceed(session)
            else:
                self._bootstrap.create(session)

    def _follow(self, until: Callable[[Capture], bool]) -> bool:
        """From connecting to being cut off; whether it ended because it should."""
        self._bootstrap.discard()
        self._streamed = True
        with Session.open(self.options) as session:
            stream = Stream(
                self.log,
                self.options,
                self.tables,
                self.life,
                session,
                watcher=self._watcher,
                sweeper=self._sweeper,
                stop=self._stop,
            )
            self.applier = stream.applier
            return stream.follow(lambda: until(self))

    def is_ready(self) -> bool:
        """Whether the first snapshot is in the log."""
        return lifecycle.state_in(self.life.stored) is State.STREAMING

    def prepare(self) -> None:
        """Everything before the stream: checks, publications, slot, first snapshot. Does only what is not done."""
        with self._alone():
            while not self._stop.is_set() and not self.is_ready():
                with suppress(TablesMoved):
                    self._bring_to_stream(self.life.uninterrupted)
            self._bootstrap.discard()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process captures the source into this log; it continues when that one ends."""
        self.options.directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.options.directory / "capture.lock")
        said = False
        try:
            while not self._stop.is_set():
                with lock.try_hold() as held:
                    if held:
                        self._clean()
                        yield
                        return
                if not said:
                    said = True
                    self._say(f"Another process captures source {self.options.name!r}: waiting for it to end.")
                self._stop.wait(IDLE_SECONDS)
            yield
        finally:
            lock.close()

    def _clean(self) -> None:
        """Removes what a capture that was killed has left in files."""
        for folder in ("spool", "staged", "staged-alone", "staged-whole", "changes-*"):
            for file in self.options.directory.glob(f"{folder}/*"):
                file.unlink(missing_ok=True)

    def _replace_slot(self) -> None:
        """A new slot, and every table read again while changes flow: rows that differ, or are gone, are set right."""
        lost, names, stored = self._lost, self.options.names, self.life.stored
        assert lost is not None
        self._say(f"{lost.message} Creating a new one and comparing every table.")
        self.tables.load()
        before = self.log.bookmark(names.position)
        slot, published = self._new_slot()
        event = Event(str(slot), "", "", "slot lost", lost.message)
        outbox = Outbox(self.log, self.options)
        again = [each for each in self.tables.active() if not each.append_only and not outbox.is_outbox(each)]
        jobs = [new_job(table.relation.oid, purge=True).to_json() for table in again]
        for table in [each for each in self.tables.active() if each.append_only]:
            self.tables.stop(table, f"{lost.message} Without a key, what is missing cannot be told.", slot)
        with self.log.commit(on_conflict="return") as commit:
            commit.bookmark(names.position, position_of(slot), expect=before)
            # Somebody may have dropped the capture meanwhile, or asked for a snapshot: then all of it is done again.
            self.life.add_to(commit, stored, lifecycle.Event.SLOT_REPLACED, jobs)
            commit.bookmark(names.publications, published)
            commit.append(names.history, [asdict(event)])
            self.tables.moves(commit)
        if (conflict := commit.conflict) is None:
            self.life.moved()
            self._lost = None
        elif conflict.bookmark == names.position:
            raise CaptureOvertaken(self.options.name, lost.captured, str(conflict.actual))

    def _new_slot(self) -> tuple[Lsn, dict[str, int]]:
        """Makes the slot again, and what else the tables need: where it begins, and which publications there are."""
        with self.options.address.connect() as connection:
            try:
                self.tables.recognise({table.relation.oid: table for table in tables_of(connection)})
                wanted = [table.relation.oid for table in self.tables.active() if self.tables.is_wanted(table)]
                plan = check(connection, self.options, only=wanted)
                publish(connection, self.options, plan, self._say)
                if plan.has_slot:
                    drop_slot(connection, self.options)
                published = publications(connection, self.options)
            except psycopg.Error as error:
                raise self.options.address.failed(error) from error
        slot = create_slot(self.options, stop=self._stop, say=self._say)
        slot.connection.finish()
        return slot.start, published

    def _recreate_topic(self, gone: UnknownTopic) -> None:
        """Somebody has dropped a topic: it is made again and, if it is that of a table, the table is read."""
        names = self.options.names
        self._say(f"{gone.message} It will be recreated.")
        self.tables.load()
        table = next((each for each in self.tables.active() if each.topic == gone.name), None)
        if gone.name == names.history:
            self.log.create(names.history, HISTORY_SCHEMA, exist_ok=True)
        elif table is None:
            # A topic of events, which is made by the next of them.
            self._stop.wait(RETRY_SECONDS[0])
        elif self.life.uninterrupted is State.SNAPSHOT:
            self.life.move(lifecycle.Event.RESTART)
        else:
            if not self.options.is_outbox(table.name):
                # First, so that the topic is never there without what fills it.
                self.life.ask([new_job(table.relation.oid).to_json()])
            self.tables.recreate_topic(table)
            with self.log.commit(on_conflict="return") as commit:
                self.tables.moves(commit)
