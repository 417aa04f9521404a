"""An acknowledgement is a future in every way, however it is waited for and whenever it is done."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, as_completed, wait
from pathlib import Path

import pytest

import headwater as hw
from headwater.log.acknowledgement import Acknowledgement
from headwater.log.embedded.position import commit_position
from headwater.model.position import Position

POSITION = commit_position(7)
SECONDS_MAX = 10


class Refused(Exception):
    """What became of a record that was not written."""


def done_later(sent: Acknowledgement) -> threading.Thread:
    """Settles it in another thread once somebody waits for it."""

    def run() -> None:
        while not sent._is_plain:
            time.sleep(0)
        sent.set_result(POSITION)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_result_that_is_there_needs_no_condition() -> None:
    sent = Acknowledgement()
    assert not sent.done()
    sent.set_result(POSITION)
    assert sent.done()
    assert sent.result() == POSITION
    assert not sent._is_plain


def test_a_thread_waits_for_the_result() -> None:
    sent = Acknowledgement()
    thread = done_later(sent)
    assert sent.result(SECONDS_MAX) == POSITION
    thread.join()


def test_a_thread_waits_in_vain() -> None:
    with pytest.raises(TimeoutError):
        Acknowledgement().result(0.001)


@pytest.mark.parametrize("waits_first", [False, True])
def test_an_error_is_the_result(waits_first: bool) -> None:
    sent = Acknowledgement()
    if waits_first:
        with pytest.raises(TimeoutError):
            sent.exception(0.001)
    sent.set_exception(Refused())
    assert sent.done()
    assert isinstance(sent.exception(), Refused)
    with pytest.raises(Refused):
        sent.result()


@pytest.mark.parametrize("waits_first", [False, True])
def test_callbacks_are_called_once_whether_added_before_or_after(waits_first: bool) -> None:
    sent = Acknowledgement()
    called: list[tuple[str, Future[Position]]] = []
    sent.add_done_callback(lambda future: called.append(("before", future)))
    if waits_first:
        with pytest.raises(TimeoutError):
            sent.result(0.001)
    sent.add_done_callback(lambda future: called.append(("between", future)))
    assert called == []
    sent.set_result(POSITION)
    sent.add_done_callback(lambda future: called.append(("after", future)))
    assert called == [("before", sent), ("between", sent), ("after", sent)]


def test_it_can_not_be_cancelled() -> None:
    sent = Acknowledgement()
    assert sent.cancel() is False
    assert not sent.cancelled()
    sent.set_result(POSITION)
    assert sent.result() == POSITION


def test_a_producer_goes_on_after_a_caller_tried_to_cancel(tmp_path: Path) -> None:
    with hw.open(tmp_path) as log:
        log.create("orders", "id bigint")
        with log.producer("orders") as producer:
            first = producer.send({"id": 1})
            first.cancel()
            second = producer.send({"id": 2})
            assert first.result(SECONDS_MAX) <= second.result(SECONDS_MAX)


def test_it_is_settled_once() -> None:
    sent = Acknowledgement()
    sent.set_result(POSITION)
    with pytest.raises(InvalidStateError):
        sent.set_result(POSITION)


def test_many_are_waited_for_together() -> None:
    sends = [Acknowledgement() for _ in range(3)]
    thread = done_later(sends[1])
    assert wait(sends, SECONDS_MAX, FIRST_COMPLETED).done == {sends[1]}
    thread.join()
    for sent in (sends[0], sends[2]):
        sent.set_result(POSITION)
    assert set(as_completed(sends, SECONDS_MAX)) == set(sends)


def test_a_coroutine_waits_for_it() -> None:
    async def run() -> Position:
        sent = Acknowledgement()
        threading.Thread(target=sent.set_result, args=(POSITION,)).start()
        return await asyncio.wait_for(asyncio.wrap_future(sent), SECONDS_MAX)

    assert asyncio.run(run()) == POSITION
