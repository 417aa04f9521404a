"""What an application declares about time: its clock, the watermarks of its topics, and what has to run for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias, get_args

from headwater.engine.lateness import LATE_BY, REASON, WATERMARK, LateRule
from headwater.engine.parts import Part
from headwater.engine.ticking import Ticking
from headwater.engine.watermarking import Watermarking, WatermarkState
from headwater.engine.watermarks import WatermarkRule, check_rule
from headwater.errors import UsageError
from headwater.log.port import Log
from headwater.log.times import CLOCK, create_source, keep_source, time_of, watermark_of, watermarked
from headwater.log.topic import Topic
from headwater.model.durations import Duration, duration_of, is_duration

Emit = Literal["changes", "final"]
"""When a view shows a row: as it changes, or once it cannot change any more."""
Late: TypeAlias = str
"""What becomes of late records: they `correct` results, they do so up to a limit ("correct for 1 day"), or views `drop`
them."""
_BOUNDED = "correct for "


class Timekeeping:
    """The time sources of an application. `reads` gives those that its views read, as far as is known yet."""

    def __init__(self, log: Log, reads: Callable[[], Collection[str]]) -> None:
        self._log, self._reads = log, reads
        self._every: timedelta | None = None
        self._rules: dict[str, WatermarkRule] = {}
        self._late: dict[str, LateRule] = {}
        self._watermarks: dict[str, Watermarking] = {}

    def set_clock(self, every: Duration, *, create: bool) -> None:
        """Lets the log's clock tick as often as that. Raises `UsageError`."""
        interval = duration_of("every", every)
        if interval <= timedelta(0):
            raise UsageError("A clock cannot tick every 0 s.", hint="Give it a second, or a minute.")
        self._every = interval
        if create:
            create_source(self._log, CLOCK)

    def set_watermark(
        self,
        topic: Topic,
        delay: Duration,
        producer: str | None,
        idle: Duration | None,
        event_time: str | None,
        future_max: Duration | None = None,
    ) -> None:
        """Lets the watermark of a topic follow its records. Raises `UsageError`."""
        if event_time is None:
            raise UsageError(
                f"Topic {topic.name!r} has a watermark and no event time.", hint="Name its column: event_time='at'."
            )
        rule = WatermarkRule(
            topic.name, event_time, duration_of("watermark", delay), producer,
            None if idle is None else duration_of("idle", idle),
            None if future_max is None else duration_of("future_max", future_max),
        )  # fmt: skip
        check_rule(rule, topic.schema)
        self._rules[topic.name] = rule
        self._watermarks[topic.name] = Watermarking(self._log, rule, lambda: watermark_of(topic.name) in self._reads())

    def set_late(self, topic: Topic, late: Late, *, create: bool) -> None:
        """Says what becomes of late records of a topic. Raises `UsageError`."""
        allowance = allowance_of(late)
        self._late.pop(topic.name, None)
        if allowance is None:
            return
        rule = self._rules.get(topic.name)
        if rule is None:
            raise UsageError(
                f"Topic {topic.name!r} has no watermark, so none of its records is late.",
                hint="Declare one: app.topic(..., event_time='at', watermark='10 seconds', late='drop').",
            )
        _check_droppable(topic)
        self._late[topic.name] = LateRule(rule, allowance)
        if create:
            for source in (watermark_of(topic.name), *([] if rule.idle is None else [CLOCK])):
                keep_source(self._log, source)

    @property
    def late(self) -> Mapping[str, LateRule]:
        """The topics of which late records are dropped."""
        return self._late

    def emitted(self, view: str, sql: str, emit: Emit) -> str:
        """The query, if it is to be final with those windows only that have ended. Raises `UsageError`."""
        if emit not in get_args(Emit):
            raise UsageError(
                f"Invalid emit={emit!r}: expected 'changes' or 'final'.", hint="Leave it out, or use 'final'."
            )
        if emit == "changes":
            return sql
        read = [topic for topic in self._rules if re.search(rf"(?<![\w.]){re.escape(topic)}(?![\w.])", sql)]
        if not read:
            raise UsageError(
                f"View {view!r} cannot be final: it reads no topic with a watermark.",
                hint="Declare it before the view: app.topic(..., event_time='at', watermark='10 seconds').",
            )
        closed = " AND ".join(f"window.end <= watermark('{topic}')" for topic in read)
        return f"SELECT * FROM ({sql}\n) WHERE {closed}"

    def advance(self, plan: Callable[[], object]) -> None:
        """Lets the watermarks that views read follow the records so far. `plan` finds out which these are."""
        if self._rules:
            plan()
        for one in self._watermarks.values():
            if one.source in self._reads():
                one.advance()

    def watermarks(self) -> list[WatermarkState]:
        """Where the watermarks are that the application declares."""
        return [one.state() for one in self._watermarks.values()]

    def check(self, sources: Collection[str]) -> None:
        """Raises `UsageError` if views read a time source that the application does not declare."""
        if CLOCK in sources and self._every is None:
            raise UsageError(
                "A view reads now(), and the application has no clock.",
                hint='Let the log\'s clock tick: app.clock(every="1 second").',
            )
        for source in sources:
            topic = watermarked(source)
            if (
                topic is not None
                and topic not in self._rules
                and time_of(self._log, source, self._log.position()) is None
            ):
                raise UsageError(
                    f"A view reads the watermark of {topic!r}, which has none.",
                    hint=f"Declare it: app.topic({topic!r}, ..., event_time='at', watermark='10 seconds').",
                )
        for rule in self._rules.values():
            if self._every is None and self._waits_for_idle(rule, sources):
                raise UsageError(
                    f"Topic {rule.topic!r} has idle producers, and the application has no clock.",
                    hint='Let the log\'s clock tick: app.clock(every="1 second").',
                )

    def parts(self) -> Sequence[Part]:
        """What runs beside the pipeline."""
        watermarks = list(self._watermarks.values())
        return watermarks if self._every is None else [*watermarks, Ticking(self._log, self._every, self._needs_clock)]

    def _needs_clock(self) -> bool:
        """Whether a view reads the clock, or a watermark that idle producers do not hold back."""
        read = self._reads()
        return CLOCK in read or any(self._waits_for_idle(rule, read) for rule in self._rules.values())

    def _waits_for_idle(self, rule: WatermarkRule, read: Collection[str]) -> bool:
        """Whether something depends on which producers of a topic are idle."""
        return rule.idle is not None and (watermark_of(rule.topic) in read or rule.topic in self._late)


def allowance_of(late: Late) -> timedelta | None:
    """By how much a record may be late before it is dropped; None if none is. Raises `UsageError`."""
    if late == "correct":
        return None
    if late == "drop":
        return timedelta(0)
    bounded = late.removeprefix(_BOUNDED)
    if bounded == late or not is_duration(bounded):
        raise UsageError(
            f"Invalid late={late!r}: expected 'correct', 'drop' or 'correct for 1 day'.",
            hint="'correct' lets late records correct results for ever, 'drop' keeps them in late('topic').",
        )
    return duration_of("late", bounded)


def _check_droppable(topic: Topic) -> None:
    if topic.key:
        raise UsageError(
            f"Late records of table {topic.name!r} cannot be dropped: its newest record per key counts.",
            hint="Leave the key out, so that the topic is a stream, or leave late= out.",
        )
    for name in topic.schema.names:
        if name.lower() in (WATERMARK, LATE_BY, REASON):
            raise UsageError(
                f"Topic {topic.name!r} has a column {name!r}, which late({topic.name!r}) adds.", hint="Rename it."
            )
    if topic.history == "forget":
        raise UsageError(
            f"Late records of topic {topic.name!r} cannot be dropped: retention deletes the records before them, "
            "by which they are judged.",
            hint="Keep them in an archive (archive=URL), or in the views (views='keep').",
        )


class Timed:
    """An application that keeps time."""

    time: Timekeeping
    _creates: bool

    def clock(self, every: Duration = "1 second") -> None:
        """The log's clock, for views that compare with `now()`: a tick is a record of the log.

        It ticks while the application runs, as often as that, and only if a view reads it. In tests
        `app.log.tick(...)` sets it.
        """
        self.time.set_clock(every, create=self._creates)
