"""Captures beside a test, each as a part that a runner keeps running."""

from __future__ import annotations

from headwater.connectors.postgres.capture import Capture
from headwater.engine.parts import Part, Report, Stop
from headwater.engine.running import Runner


class Capturing(Part):
    """A capture that was made for a test."""

    def __init__(self, capture: Capture, name: str) -> None:
        self._capture, self._name = capture, name

    @property
    def name(self) -> str:
        return self._name

    def run(self, stop: Stop, report: Report) -> None:
        with stop.calling(self._capture.stop):
            self._capture.run()

    def is_ready(self) -> bool:
        return self._capture.is_ready()


def keeping(*captures: Capture) -> Runner:
    """Runs captures within a `with` block."""
    return Runner([Capturing(capture, f"capture-{number}") for number, capture in enumerate(captures)])
