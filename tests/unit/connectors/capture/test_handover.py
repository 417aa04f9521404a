"""What two threads tell each other: in order, nothing twice, and nobody waits for one that is gone."""

from __future__ import annotations

import threading

from headwater.connectors.capture.handover import Handover


def test_reports_are_taken_once_in_their_order() -> None:
    handover: Handover[str, int] = Handover("")
    for number in range(3):
        handover.report(number)
    assert handover.take() == [0, 1, 2]
    assert handover.take() == []


def test_a_reader_gets_its_work_when_it_is_ready() -> None:
    handover: Handover[int, int] = Handover(0)

    def read() -> None:
        while (work := handover.wait_for(lambda work: work > 0)) is not None:
            handover.report(work)
            handover.wait_for(lambda now, done=work: now != done)  # type: ignore[misc]

    thread = threading.Thread(target=read)
    thread.start()
    found: list[int] = []
    for work in (1, 0, 2):
        handover.give(work)
        while work and not (told := handover.take()):
            pass
        found += told if work else []
    handover.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert found == [1, 2]


def test_who_waits_is_woken_by_the_end() -> None:
    handover: Handover[int, int] = Handover(0)
    ended: list[object] = []

    def read() -> None:
        handover.rest(600)
        ended.append(handover.wait_for(lambda work: work > 0))

    thread = threading.Thread(target=read)
    thread.start()
    handover.stop()
    thread.join(10)
    assert ended == [None]
    assert handover.is_stopped
