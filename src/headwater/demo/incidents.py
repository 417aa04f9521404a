"""What is broken on purpose, and how it recovers: each incident from the blow to the proof that everything is right."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Literal, NamedTuple, Protocol

from headwater.app import App
from headwater.cdc.postgres.lsn import Lsn
from headwater.demo.control import Message
from headwater.demo.events import BURST_COUNT, LATE_COUNT, TOPIC, burst, late, poison
from headwater.demo.reports import EDITED_ROWS, Reports
from headwater.demo.targets import Targets
from headwater.engine.reading import Reader
from headwater.errors import Determinate, HeadwaterError, Refused, SourceUnavailable
from headwater.log.port import Log
from headwater.model.encoding import format_instant
from headwater.model.position import START, Position
from headwater.server.failures import too_many
from headwater.server.verifications import Verifications

State = Literal["happening", "recovering", "verifying", "auditing", "green", "red", "failed"]
ENDED = ("green", "red", "failed")

AT_ONCE_MAX = 4
KEPT_MAX = 50
POLL_SECONDS = 0.1
CAPTURE_POLL_SECONDS = 0.5
STATUS_SECONDS_MAX = 2.0
AUDIT_RETRY_SECONDS = 1.0
RECOVERY_SECONDS_MAX = 600.0
DATABASE_DOWN_SECONDS = 20.0
"""How long the database is away, unless somebody starts it earlier."""
REPORTS_DOWN_SECONDS = 20.0
"""How long nobody can connect to the report database."""
BACKUP_AGE_SECONDS = 15.0
"""How old the backup is that is restored."""
LOOK_SECONDS = 5.0
"""How long a damaged table is left as it is, for people to look at."""
BURST_COMMIT_ROWS = 10_000
VERIFICATIONS_MAX = 3
"""How often a view is verified again that could not be, or that was verified before the incident."""


class Action(NamedTuple):
    """Something that one can do to the shop."""

    name: str
    title: str
    about: str
    on_target: bool = False
    """Whether it is done to the target of a sink, which views know nothing of."""


ACTIONS = (
    Action("kill-pipeline", "Kill the pipeline", "SIGKILL to the process that captures and keeps the views. It is "
           "started again, and continues where its last commit was."),
    Action("stop-database", "Stop the database", "PostgreSQL ends at once, as in a crash, and comes back after "
           f"{DATABASE_DOWN_SECONDS:.0f} s. Nobody can buy; people still look around."),
    Action("start-database", "Start the database", "Now, without waiting."),
    Action("poison", "Send a poison event", "One record that its topic refuses and one that makes a view fail. Both "
           "are set aside as dead letters, and everything else keeps running."),
    Action("late", "Send late events", f"{LATE_COUNT} page views of the last 90 minutes, from phones that had no "
           "network. Results that were published long ago are corrected."),
    Action("burst", f"Send {BURST_COUNT:,} events", "Page views, as fast as the log takes them."),
    Action("verify", "Verify everything", "Every view is compared with its SQL run over the log as a batch query, and "
           "every target with its view."),
    Action("edit-report", "Edit the search table", f"Somebody changes {EDITED_ROWS} orders in the report database by "
           f"hand, deletes {EDITED_ROWS}, and invents one. An audit finds the rows and repairs exactly those.", True),
    Action("empty-report", "Empty the search table", "TRUNCATE: the search finds nothing, until an audit has put all "
           "rows back.", True),
    Action("deny-report", "Block the reports", "All sessions of the report database end, and nobody "
           f"can connect for {REPORTS_DOWN_SECONDS:.0f} s. Views and other sinks don't wait for it.", True),
    Action("restore-report", "Restore an old backup", f"A copy from {BACKUP_AGE_SECONDS:.0f} s ago replaces the report "
           "database. Its sinks notice that it went back, and bring what it lacks.", True),
)  # fmt: skip
BY_NAME = {action.name: action for action in ACTIONS}
REPAIRED = ("edit-report", "empty-report")
"""What leaves damage that only an audit finds."""


class Shop(Protocol):
    """What an incident needs of the served application; `headwater.server.service.Service` has it."""

    @property
    def app(self) -> App: ...
    @property
    def log(self) -> Log: ...
    @property
    def reader(self) -> Reader: ...
    @property
    def verifications(self) -> Verifications: ...


@dataclass(slots=True)
class Incident:
    """One action and what became of it.

    `verified` says of each view: waiting, right, wrong or failed; `audited` of each sink: waiting, equal, repaired or
    different.
    """

    number: int
    action: str
    began_at: datetime
    state: State = "happening"
    position: Position | None = None
    recovered_seconds: float | None = None
    verified_seconds: float | None = None
    audited_seconds: float | None = None
    steps: list[tuple[datetime, str]] = field(default_factory=list)
    verified: dict[str, str] = field(default_factory=dict)
    audited: dict[str, str] = field(default_factory=dict)
    last_published: Position | None = None
    """What the process that was killed has published last: it has recovered when there is something new."""
    _began: float = field(default_factory=time.monotonic)

    def note(self, text: str) -> None:
        self.steps.append((datetime.now(UTC), text))

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def to_json(self) -> dict[str, object]:
        return {
            "number": self.number,
            "action": self.action,
            "title": BY_NAME[self.action].title,
            "began_at": format_instant(self.began_at),
            "state": self.state,
            "position": None if self.position is None else str(self.position),
            "recovered_seconds": self.recovered_seconds,
            "verified_seconds": self.verified_seconds,
            "audited_seconds": self.audited_seconds,
            "steps": [{"at": format_instant(at), "text": text} for at, text in list(self.steps)],
            "verified": dict(self.verified),
            "audited": dict(self.audited),
        }


class Incidents:
    """Everything that was broken since the demo began. Each incident is looked after by a thread of its own."""

    def __init__(self, shop: Shop, supervisor: Callable[..., Message], reports: Reports) -> None:
        self._shop, self._supervisor, self._reports = shop, supervisor, reports
        self._targets = Targets(shop.app.sinks, shop.reader)
        self._turn = threading.Lock()
        # Targets are not audited while somebody damages them.
        self._targets_turn = threading.Lock()
        self._count = 0
        self._kept: deque[Incident] = deque(maxlen=KEPT_MAX)
        self._processes: list[Message] = []
        self._do: Mapping[str, Callable[[Incident], None]] = {
            "kill-pipeline": self._kill_pipeline,
            "stop-database": self._stop_database,
            "start-database": self._start_database,
            "poison": self._poison,
            "late": self._late,
            "burst": self._burst,
            "verify": lambda _: None,
            "edit-report": self._edit_report,
            "empty-report": self._empty_report,
            "deny-report": self._deny_report,
            "restore-report": self._restore_report,
        }

    def begin(self, action: str) -> Incident:
        """Does it, and returns before it is done. Raises `Refused`."""
        if action not in self._do:
            raise Refused(404, "unknown_action", f"There is no action {action[:60]!r}.", hint=", ".join(BY_NAME))
        with self._turn:
            if sum(one.state not in ENDED for one in self._kept) >= AT_ONCE_MAX:
                raise too_many("incidents")
            self._count += 1
            incident = Incident(self._count, action, datetime.now(UTC))
            self._kept.append(incident)
        threading.Thread(target=self._run, args=(incident,), name=f"headwater-demo-{action}", daemon=True).start()
        return incident

    def processes(self) -> list[Message]:
        """The demo's processes, as the supervisor sees them, or has seen them last if it is busy."""
        with suppress(Determinate):
            self._processes = self._supervisor(action="status", seconds=STATUS_SECONDS_MAX)["processes"]
        return self._processes

    def to_json(self) -> dict[str, object]:
        """Everything that the page shows."""
        with self._turn:
            kept = list(self._kept)
        return {
            "actions": [action._asdict() for action in ACTIONS],
            "processes": self.processes(),
            "incidents": [incident.to_json() for incident in reversed(kept)],
        }

    def _run(self, incident: Incident) -> None:
        on_target = BY_NAME[incident.action].on_target
        try:
            with self._targets_turn if on_target else nullcontext():
                self._do[incident.action](incident)
                if on_target:
                    self._audit(incident)
            if not on_target:
                self._recover(incident)
                self._verify(incident)
                with self._targets_turn:
                    self._audit(incident)
            wrong = {*incident.verified.values(), *incident.audited.values()} - {"right", "equal", "repaired"}
            incident.state = "red" if wrong else "green"
        except HeadwaterError as error:
            incident.note(error.message)
            incident.state = "failed"

    def _recover(self, incident: Incident) -> None:
        """Returns when the views have come to where the log was after the incident.

        After a kill, they may have been there already: then something new has to be published.
        """
        incident.state = "recovering"
        target = self._shop.log.position()
        incident.position = target
        otherwise = f"The views did not come to position {target} in time."
        self._until(lambda: self._is_recovered(incident, target), otherwise)
        incident.recovered_seconds = incident.seconds
        reached = self._shop.reader.position()
        incident.note(f"The views are at position {reached}, {incident.seconds:.1f} s after it began.")

    def _verify(self, incident: Incident) -> None:
        """Compares every view with its SQL, at the incident's position or later."""
        incident.state = "verifying"
        views = list(self._shop.app.views)
        incident.verified = dict.fromkeys(views, "waiting")
        asked = dict.fromkeys(views, 1)
        for view in views:
            self._shop.verifications.ask(view)

        def done() -> bool:
            for view in views:
                if incident.verified[view] == "waiting":
                    self._look(incident, view, asked)
            return "waiting" not in incident.verified.values()

        self._until(done, "The views could not all be verified in time.")
        incident.verified_seconds = incident.seconds
        right = sum(verdict == "right" for verdict in incident.verified.values())
        incident.note(f"{right} of {len(views)} views are what their SQL gives.")

    def _audit(self, incident: Incident) -> None:
        """Compares every target with its view, once it has what the log had after the incident.

        Only what somebody has damaged by hand is repaired: everything else has to be right without that.
        """
        incident.state = "auditing"
        position = incident.position = incident.position or self._shop.log.position()
        names = self._targets.names()
        incident.audited = dict.fromkeys(names, "waiting")
        otherwise = f"The targets did not come to position {position} in time."
        self._until(lambda: self._targets.have(position), otherwise)
        repaired = incident.action in REPAIRED
        if incident.recovered_seconds is None and not repaired:
            incident.recovered_seconds = incident.seconds
            incident.note(f"The targets are at position {position}, {incident.seconds:.1f} s after it began.")
        for name in names:
            otherwise = f"The target of {name} could not be audited in time."
            self._until(partial(self._audited, incident, name, repair=repaired), otherwise, every=AUDIT_RETRY_SECONDS)
        incident.audited_seconds = incident.seconds

    def _look(self, incident: Incident, view: str, asked: dict[str, int]) -> None:
        """Notes the verdict of a view, once there is one that speaks of the incident's position or a later one."""
        state = self._shop.verifications.state(view)
        status = state.get("status")
        if status not in ("done", "failed"):
            return
        result = state.get("result")
        assert incident.position is not None
        verified = Position.parse(str(result["position"])) if isinstance(result, dict) else START
        if status == "done" and isinstance(result, dict) and incident.position <= verified:
            incident.verified[view] = "right" if result["equal"] else "wrong"
        elif asked[view] < VERIFICATIONS_MAX:
            asked[view] += 1
            self._shop.verifications.ask(view)
        else:
            incident.verified[view] = "failed"

    def _kill_pipeline(self, incident: Incident) -> None:
        answered = self._supervisor(action="kill-pipeline")
        incident.last_published = self._shop.reader.position()
        incident.note(f"Process {answered['killed']} was killed; {answered['pid']} has taken its place.")

    def _stop_database(self, incident: Incident) -> None:
        self._supervisor(action="stop-database")
        incident.note("The database is down.")
        deadline = time.monotonic() + DATABASE_DOWN_SECONDS
        while time.monotonic() < deadline and not self._database_is_up():
            time.sleep(0.5)
        self._start_database(incident)

    def _start_database(self, incident: Incident) -> None:
        lsn = str(self._supervisor(action="start-database")["lsn"])
        incident.note(f"The database is up; its WAL ends at {lsn}.")
        otherwise = "The capture did not come to where the database is in time."
        self._until(lambda: self._captured(lsn), otherwise, every=CAPTURE_POLL_SECONDS)
        incident.note(f"Everything up to {lsn} is captured.")

    def _poison(self, incident: Incident) -> None:
        before = len(self._shop.reader.excluded())
        position = self._shop.log.append(TOPIC, poison(datetime.now(UTC)))
        incident.note(f"Two poisonous records were sent, at position {position}.")
        self._until(lambda: len(self._shop.reader.excluded()) > before, "No view has set the record aside in time.")
        found = self._shop.reader.excluded()[-1]
        incident.note(f"Set aside: {found.topic}, offset {found.offset}, by {found.view or 'its view'}.")

    def _late(self, incident: Incident) -> None:
        position = self._shop.log.append(TOPIC, late(datetime.now(UTC)))
        incident.note(f"{LATE_COUNT} late page views were sent, at position {position}.")

    def _burst(self, incident: Incident) -> None:
        began = time.monotonic()
        events = burst(self._shop.log.topic(TOPIC).schema, datetime.now(UTC))
        for start in range(0, events.num_rows, BURST_COMMIT_ROWS):
            self._shop.log.append(TOPIC, events.slice(start, BURST_COMMIT_ROWS))
        incident.note(f"{events.num_rows:,} page views are in the log, after {time.monotonic() - began:.1f} s.")

    def _audited(self, incident: Incident, name: str, *, repair: bool) -> bool:
        """Audits one target. False if that is not possible now, such as while another incident keeps it away."""
        try:
            found = self._targets.audit(name, repair=repair)
        except HeadwaterError:
            return False
        incident.audited[name] = found.verdict
        incident.note(str(found))
        return True

    def _edit_report(self, incident: Incident) -> None:
        done = self._reports.edit()
        incident.note(f"{done.changed} orders were changed, {done.deleted} deleted and {done.invented} invented.")
        time.sleep(LOOK_SECONDS)

    def _empty_report(self, incident: Incident) -> None:
        incident.note(f"{self._reports.empty():,} orders were deleted from the search table.")
        time.sleep(LOOK_SECONDS)

    def _deny_report(self, incident: Incident) -> None:
        sessions = self._reports.deny()
        incident.note(f"{sessions} sessions of the report database were ended, and nobody can connect.")
        time.sleep(REPORTS_DOWN_SECONDS)
        self._allow_reports()
        incident.note("Everybody can connect again.")

    def _restore_report(self, incident: Incident) -> None:
        try:
            self._reports.copy()
            incident.note(f"A backup was made, with {self._reports.rows():,} orders.")
            time.sleep(BACKUP_AGE_SECONDS)
            before = self._reports.rows()
            self._reports.restore()
            incident.note(f"The backup has replaced the database, which had {before:,} orders.")
        finally:
            self._allow_reports()

    def _allow_reports(self) -> None:
        """Lets everybody in again, as soon as there is a server: another incident may have stopped it."""
        self._until(self._reports.is_allowed, "The report database could not be opened again.")

    def _is_recovered(self, incident: Incident, target: Position) -> bool:
        position, before = self._shop.reader.position(), incident.last_published
        return position is not None and position >= target and (before is None or not position <= before)

    def _captured(self, lsn: str) -> bool:
        try:
            return all(
                Lsn.parse(source.status().position) >= Lsn.parse(lsn) for source in self._shop.app.sources.values()
            )
        except SourceUnavailable:
            return False

    def _database_is_up(self) -> bool:
        return any(one["name"] == "database" and one["state"] == "running" for one in self.processes())

    def _until(self, true: Callable[[], bool], otherwise: str, every: float = POLL_SECONDS) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while not true():
            if time.monotonic() > deadline:
                raise Determinate(otherwise)
            time.sleep(every)
