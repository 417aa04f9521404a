"""Positions that move: the one that waits is woken when theirs is reached, and nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.errors import NotYet
from headwater.log.embedded.position import commit_position
from headwater.model.position import Position
from headwater.server.positions import Watched


def at(commit: int) -> Position:
    return commit_position(commit)


class Hand:
    """A position that a test moves."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._position = at(0)

    def now(self) -> Position:
        return self._position

    def next(self, seen: Position | None) -> Position:
        with self._moved:
            self._moved.wait_for(lambda: self._position != seen, 0.05)
            return self._position

    def move(self, commit: int) -> None:
        with self._moved:
            self._position = at(commit)
            self._moved.notify_all()


async def watched(hand: Hand) -> Watched:
    made = Watched(hand, "test")
    await made.start()
    return made


def test_who_waits_is_woken_when_theirs_is_reached() -> None:
    async def main() -> None:
        hand = Hand()
        positions = await watched(hand)
        waiting = [asyncio.create_task(positions.reached(at(commit), 30)) for commit in range(1, 2001)]
        await asyncio.sleep(0)
        hand.move(1000)
        await asyncio.gather(*waiting[:1000])
        assert not any(task.done() for task in waiting[1000:])
        hand.move(2000)
        await asyncio.gather(*waiting)
        positions.stop()

    asyncio.run(main())


def test_who_waits_too_long_is_told_how_far_it_is() -> None:
    async def main() -> None:
        hand = Hand()
        positions = await watched(hand)
        hand.move(3)
        await positions.reached(at(3), 30)
        with pytest.raises(NotYet, match="the views are at position 3") as late:
            await positions.reached(at(4), 0.01)
        assert (late.value.wanted, late.value.position) == ("4", "3")
        positions.stop()

    asyncio.run(main())


def test_nobody_waits_for_what_has_ended() -> None:
    async def main() -> None:
        positions = await watched(Hand())
        waiting = asyncio.create_task(positions.moved(at(0), 30))
        await asyncio.sleep(0)
        positions.release()
        assert not await waiting
        assert not await positions.moved(at(0), 30)
        positions.stop()

    asyncio.run(main())
