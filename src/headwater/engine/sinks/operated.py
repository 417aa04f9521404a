"""What people do to a sink, from any process of its application: pause, resume, audit, reset, drop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from headwater.engine.parts import Report
from headwater.engine.sinks.audit import SinkAudit, audit_of
from headwater.engine.sinks.control import Control, Request


class Operated(ABC):
    """A sink, as far as people work with it. Everything is done between two deliveries."""

    control: Control

    @abstractmethod
    def carry_out(self, request: Request, report: Report | None = None) -> Mapping[str, Any]:
        """Does something in the process that feeds the sink, or here if none does. Raises what went wrong there."""

    def pause(self) -> None:
        """Lets nothing be delivered until `resume`, also after a restart; changes are kept meanwhile."""
        self.control.pause()

    def resume(self) -> None:
        """Ends a pause, also one that began because the target had failed for too long."""
        self.control.resume()

    def audit(self, *, repair: bool = False, report: Report | None = None) -> SinkAudit:
        """Compares the target with the view at one position; with `repair`, mends exactly the rows that differ.

        Raises `UsageError` for a target that does not hold the view's rows, `TargetFailed` if it does not answer.
        """
        return audit_of(self.carry_out(Request("audit", {"repair": repair}), report))

    def reset(self) -> None:
        """Brings the content of the view again, whatever the target has; one that starts with "now" skips to now."""
        self.carry_out(Request("reset"))

    def drop(self) -> None:
        """Removes the position, and pauses the sink. The rows stay in the target, which is the sink's no longer."""
        self.carry_out(Request("drop"))

    def send(self, original: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        """Puts a row into the target that it refused as `original`; not if the view has a later version of it, or none.

        Returns whether the row was put there. Raises `RowRefused` if the target refuses it again.
        """
        done = self.carry_out(Request("send", {"original": dict(original), "row": dict(row)}))
        return bool(done["sent"])
