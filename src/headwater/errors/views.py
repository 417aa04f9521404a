"""What can go wrong with views: reading and following them, their state, the batches that keep them up to date."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors.kinds import Determinate, ExternalError, HeadwaterError, UsageError
from headwater.errors.log import Corrupt, PositionGone

_REBUILD = "Delete the pipeline's state: nothing is lost, the next run rebuilds it from the log."


class StateCorrupt(Corrupt):
    """A run of state or of a view that cannot be read back as it was written."""

    code = "state_corrupt"

    def __init__(self, file: str, arrangement: str, rows: int, reason: str) -> None:
        ExternalError.__init__(
            self, f"State file {file}, which holds {arrangement!r}, is damaged: {reason}.", hint=_REBUILD
        )
        self.file, self.arrangement = file, arrangement
        self.segment, self.first, self.last, self.reason = file, 0, rows - 1, reason


class StoreUnusable(ExternalError):
    """The database of a pipeline's store cannot be opened."""

    code = "store_unusable"

    def __init__(self, path: str, reason: str, *, damaged: bool) -> None:
        super().__init__(
            f"The pipeline's store {path} is damaged: {reason}." if damaged else f"{path} cannot be used: {reason}.",
            hint=_REBUILD if damaged else "Check its owner and permissions.",
        )
        self.path, self.reason, self.damaged = path, reason, damaged


class AlreadyRunning(UsageError):
    """Another process runs the application, and this one was not told to take over from it."""

    code = "already_running"

    def __init__(self, application: str, pid: int | None = None, host: str = "", since: str = "") -> None:
        who = "another process" if pid is None else f"process {pid} on {host}, since {since}"
        super().__init__(
            f"Application {application!r} is already running: {who}.",
            hint="Stop it, or take over from it: app.run(take_over=True), or `headwater run --take-over`.",
        )
        self.application, self.pid, self.host, self.since = application, pid, host, since


class StoreOutdated(UsageError):
    """The store of a pipeline is in a format that this version does not read."""

    code = "store_outdated"

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"The pipeline's store {path} has format {found}; this version reads format {known}.", hint=_REBUILD
        )
        self.path, self.found, self.known = path, found, known


class StoreBusy(Determinate):
    """Another process has been writing to the store for too long."""

    code = "store_busy"

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(
            f"Another process has been writing to {path} for {seconds:g} s.",
            hint="Look for a process that is stopped or stuck while it runs this pipeline.",
        )
        self.path, self.seconds = path, seconds


class StoreUnavailable(Determinate):
    """The server that holds the store of a pipeline does not answer, or has closed the connection. Nothing changed."""

    code = "store_unavailable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"The pipeline's store {address} is unavailable: {reason}.",
            hint="Check that its server runs and that this machine can reach it, then try again.",
        )
        self.address, self.reason = address, reason


class NotYet(Determinate):
    """The views, or the log itself, have not come as far as a read asked for.

    `position` is how far they are, None if nowhere yet.
    """

    code = "not_yet"

    def __init__(self, wanted: str | None, position: str | None, seconds: float, *, of_log: bool = False) -> None:
        what, at = ("The log", "it is at") if of_log else ("Views", "the views are at")
        reached = "nothing is published yet" if position is None else f"{at} position {position}"
        asked = "a first position" if wanted is None else f"position {wanted}"
        super().__init__(
            f"{what} did not reach {asked} within {seconds:g} s: {reached}."
            if seconds
            else f"{reached[0].upper()}{reached[1:]}.",
            hint="Use a position that this log has given."
            if of_log
            else "Check whether the pipeline is running, and try again.",
        )
        self.wanted, self.position, self.seconds = wanted, position, seconds


class UnknownView(UsageError):
    code = "unknown_view"

    def __init__(self, name: str, known: list[str], topics: list[str] | None = None) -> None:
        shown = ", ".join(sorted(known)[:10]) or "none yet"
        others = f" Topics: {', '.join(sorted(topics)[:10])}." if topics else ""
        super().__init__(
            f"There is no view {'or topic ' if topics is not None else ''}{name!r}.",
            hint=f"Views of this pipeline: {shown}.{others}",
        )
        self.name = name


class NoCandidate(UsageError):
    """No changed views wait for a decision, or not those that were asked for."""

    code = "no_candidate"


class ViewNotKept(UsageError):
    """A view that could be planned and cannot be run; the other views of its application are kept without it."""

    code = "view_not_kept"

    def __init__(self, view: str, reason: str) -> None:
        super().__init__(
            f"View {view!r} is not kept up to date: {reason}",
            hint="Write its SQL differently, and please report this: a view that can be planned should run.",
        )
        self.view, self.reason = view, reason


class InvariantBroken(HeadwaterError):
    """A bug that was caught in time: a batch would have made a view wrong, so it was not committed."""

    code = "invariant_broken"

    def __init__(self, view: str | None, operator: str, reason: str) -> None:
        super().__init__(
            f"A batch was not published, because it would make view {view!r} wrong: {reason} (in {operator}). "
            "The last version that was published stays readable.",
            hint="This is a bug: please report it with the view's SQL. To rebuild the views from the log: "
            "headwater state APP --delete, then run it again.",
        )
        self.view, self.operator, self.reason = view, operator, reason


class ViewPositionGone(PositionGone):
    """A view cannot be read at a position, or followed from it, because changes since then are not kept any more."""

    code = "view_position_gone"

    def __init__(self, view: str, position: str, earliest: str, *, reading: bool = False) -> None:
        UsageError.__init__(
            self,
            f"View {view!r} cannot be {'read at' if reading else 'followed from'} position {position}: "
            f"its changes are kept from position {earliest} on.",
            hint=f"Read it at position {earliest} or a later one, or as it is now."
            if reading
            else "Subscribe without a position: the content comes first, then every change.",
        )
        self.view, self.cause = view, "the kept history"
        self.topic, self.position, self.earliest = view, position, earliest


class RecordsMissed(UsageError):
    """Records were deleted that a pipeline still needed, and its views cannot be kept up to date without them."""

    code = "records_missed"

    def __init__(self, pipeline: str, missed: Sequence[str]) -> None:
        super().__init__(
            f"The views of {pipeline!r} missed records that were deleted: {'; '.join(missed[:10])}.",
            hint="Build the views again from what is kept (on_gone='rebuild'), or continue without these records "
            "(on_gone='earliest'); both are options of hw.App. Higher hold_age_max and hold_bytes_max keep more.",
        )
        self.pipeline, self.missed = pipeline, tuple(missed)


class HistoryGone(UsageError):
    """A view cannot be compared with its SQL, nor replayed from a base, because the log has deleted records."""

    code = "history_gone"

    def __init__(self, view: str, reasons: Sequence[str]) -> None:
        super().__init__(
            f"View {view!r} can be neither proved nor disproved: it remembers records that are gone "
            f"({'; '.join(reasons[:10])}).",
            hint="Run the application: it keeps a base, and what comes after that can be proved. Views of topics with "
            "views='forget' or with an archive can always be proved.",
        )
        self.view, self.reasons = view, tuple(reasons)


class ViewChanged(UsageError):
    """A view whose definition is not that of the published view, so that these cannot be compared."""

    code = "view_changed"

    def __init__(self, view: str) -> None:
        super().__init__(
            f"The definition of view {view!r} has changed since it was built.",
            hint="Run the application first to rebuild it, or wait until its build has ended.",
        )
        self.view = view


class ViewPositionBetween(UsageError):
    """A view was never at a position: one batch took it from a position before to a position after."""

    code = "view_position_between"

    def __init__(self, view: str, position: str, before: str, after: str) -> None:
        super().__init__(
            f"View {view!r} was never at position {position}: one batch took it from {before} to {after}.",
            hint=f"Read it at position {before} or {after}.",
        )
        self.view, self.position, self.before, self.after = view, position, before, after


class ViewFailed(UsageError):
    """An expression or an operator of a view failed on the records of a batch; nothing of the batch has happened."""

    code = "view_failed"

    def __init__(self, view: str | None, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.view = view


class RecordFailed(UsageError):
    """A record that makes a view fail; the pipeline has stopped before it.

    `without`: records of the same commit that other views would have set aside, as topic, partition and offset.
    """

    code = "record_failed"

    def __init__(
        self,
        view: str | None,
        topic: str,
        partition: int,
        offset: int,
        reason: str,
        without: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        super().__init__(
            f"View {view!r} fails on the record at offset {offset} of topic {topic!r}, partition {partition}: {reason}",
            hint="Change the view's SQL so that it takes such a record, or give the view on_error='dead_letter'.",
        )
        self.view, self.topic, self.partition, self.offset, self.reason = view, topic, partition, offset, reason
        self.without = without
