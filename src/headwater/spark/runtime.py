"""An application's views in Spark: planned, and ready to be run, explained and verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import Definition
from headwater.engine.explanation import Explanation
from headwater.engine.functions import Function
from headwater.engine.lateness import LateRule
from headwater.engine.publication import Excluded
from headwater.engine.reading import Snapshot
from headwater.engine.rehearsal import rehearse
from headwater.engine.remembered import Remembered
from headwater.engine.replaying import Replay
from headwater.engine.sparkplace import SparkPlace
from headwater.engine.view_store import ViewStore
from headwater.errors import ExternalError, HeadwaterError, HistoryGone, ViewChanged
from headwater.log.port import Log
from headwater.spark.explaining import explain
from headwater.spark.program import Program
from headwater.spark.session import session_at
from headwater.spark.verification import Batches, Verification


class Runtime:
    """Starts Spark if this process has none yet, and plans the views. Raises `InvalidQuery`, `UnsupportedQuery`."""

    def __init__(
        self,
        place: SparkPlace,
        log: Log,
        views: Mapping[str, str],
        functions: Sequence[Function],
        on_step: Callable[[str], None],
        late: Mapping[str, LateRule] | None = None,
    ) -> None:
        self._log, self._functions, self._late = log, tuple(functions), dict(late or {})
        on_step("Starting Spark")
        session = session_at(place)
        on_step(f"Planning {len(views)} {'view' if len(views) == 1 else 'views'}")
        self._topics = log.topics()
        self.program = Program(session, self._topics, views, self._functions, self._late)
        self._batches: Batches | None = None
        self._replayed: Program | None = None
        self._warm = False

    def is_current(self) -> bool:
        """Whether the topics are what they were when the views were planned."""
        return list(self._topics) == list(self._log.topics())

    def former(self, definition: Definition) -> Program | None:
        """The program of a definition that was published; None if its views would not be what they were.

        A function may have changed since, a column may be gone, and another version of Spark may plan in another way.
        """
        views = {name: view.sql for name, view in definition.views.items()}
        late = {name: LateRule.from_json(name, one.late) for name, one in definition.topics.items() if one.late}
        try:
            made = Program(self.program.session, self._topics, views, self._functions, late)
        except HeadwaterError:
            return None
        return made if made.definition.explanation.layouts == definition.explanation.layouts else None

    def warm_up(self) -> None:
        """Runs batches of which nothing is kept, so that workers start and Java compiles; later only an empty one."""
        if self._warm:
            self.program.try_out((self._log.url, self._log.identity))
        else:
            rehearse(self._log, self.program)
            self._warm = True

    def defines(self, definition: Definition) -> bool:
        """Whether the views mean what a definition says, even if they are planned in another way now.

        The definition may lack views that cannot be run.
        """
        return definition.meaning == self.program.definition.narrowed(definition).meaning

    def _defines_view(self, definition: Definition, view: str) -> bool:
        """Whether a view means what a definition says, whatever has become of others."""
        if self.defines(definition):
            return True
        built = definition.explanation.layouts.get(arrangement_of(view))
        return bool(built) and built == self.program.definition.explanation.layouts.get(arrangement_of(view))

    def broken(self) -> dict[str, str]:
        """The views that can be planned and not run, each with the reason; what reads such a view is broken, too."""
        found: dict[str, str] = {}
        for name, planned in self.program.views.items():
            culprit = next((read for read in planned.reads if read in found), None)
            if culprit is not None:
                found[name] = f"It reads view {culprit!r}, which is not kept either."
                continue
            try:
                self._alone(name).try_out((self._log.url, self._log.identity))
            except ExternalError:
                raise
            except HeadwaterError as error:
                found[name] = error.message.split("\n")[0]
            except Exception as error:  # noqa: BLE001
                # Whatever it is, it concerns this view only.
                found[name] = f"It cannot be run ({str(error).splitlines()[0][:200]})."
        return found

    def _alone(self, view: str) -> Program:
        """A program of one view and of those that it reads."""
        needed = {view}
        for name, planned in reversed(self.program.views.items()):
            if name in needed:
                needed.update(planned.reads)
        views = {name: planned.sql for name, planned in self.program.views.items() if name in needed}
        return Program(self.program.session, self._log.topics(), views, self._functions, self._late)

    def explain(self) -> Explanation:
        """The operators of all views."""
        return explain(self.program.flow, self.program.topics_by_name)

    def verify(self, view: str, snapshot: Snapshot, store: ViewStore, pipeline: str) -> Verification:
        """Compares a view, as it was read, with its query, or if it remembers records that are gone, from a base.

        Raises `ViewChanged` if it was read as another definition has it, and `HistoryGone` if there is no base.
        """
        built, excluded = store.generation(snapshot.generation), store.excluded(snapshot.generation)
        if not self._defines_view(built.definition, view):
            raise ViewChanged(view)
        if self._batches is None:
            self._batches = Batches(self.program, self._log, self._functions)
        content, position = snapshot.tables[view], snapshot.position
        try:
            remembered = Remembered(self._log, pipeline, snapshot.generation, built.definition)
            return self._batches.verify(view, content, position, excluded, remembered)
        except HistoryGone:
            found = self._proved_from_base(view, snapshot, store, built.definition, excluded)
            if found is None:
                raise
            return found

    def _proved_from_base(
        self, view: str, snapshot: Snapshot, store: ViewStore, definition: Definition, excluded: Sequence[Excluded]
    ) -> Verification | None:
        """Compares a view with a replay from the oldest base that the log reaches; None without one."""
        program = self._planned_again(definition)
        if program is None:
            return None
        replay = Replay(self._log, store, program, view, snapshot.position, excluded)
        found = replay.compare(snapshot.generation, snapshot.tables[view])
        if found is None:
            return None
        topics = program.part([arrangement_of(view)]).topics
        return Verification(
            view,
            snapshot.position,
            found.rows,
            found.differences,
            excluded=[row for row in excluded if row.topic in topics],
            since={topic: offsets for topic in topics if (offsets := found.base.offsets.get(topic))},
            base=found.base,
        )

    def _planned_again(self, definition: Definition) -> Program | None:
        """The program of a definition, with a separate session: that of the pipeline may be in use."""
        known = self._replayed
        if known is None or known.definition.explanation.layouts != definition.explanation.layouts:
            known = self._replayed = self.former(definition)
        return known
