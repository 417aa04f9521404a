"""Hashes in due order: what is due between two moments is found, and every hash belongs to one task."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.engine.batch import Batch
from headwater.views.due_order import bucket_hashes, due_hashes, owned, stretches
from headwater.views.placing import tasks_of

HASHES = st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.integers(-(2**62), 2**62) | st.integers(-(10**6), 10**6)


def ranges(tasks: int) -> list[tuple[int, int]]:
    batch = Batch(1, ("", ""), "0", "0", first=False, tasks=tasks, blobs="", runs={})
    return [owned(*batch.hash_range(task)) for task in range(tasks)]


@given(st.integers(1, 1000))
@example(256)
@example(512)
def test_tasks_own_everything_once(tasks: int) -> None:
    found = [(low, high) for low, high in ranges(tasks) if low <= high]
    assert found[0][0] == -(2**63)
    assert found[-1][1] == 2**63 - 1
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(found))


@given(HASHES, MOMENTS, st.integers(1, 300))
def test_a_row_goes_to_the_task_that_owns_its_place(given_hash: int, moment: int, tasks: int) -> None:
    hashes = np.array([given_hash], dtype=np.int64)
    (task,) = tasks_of(bucket_hashes(hashes), tasks)
    (place,) = due_hashes(bucket_hashes(hashes), np.array([moment], dtype=np.int64))
    low, high = ranges(tasks)[task]
    assert low <= place <= high


@given(HASHES, MOMENTS, st.none() | MOMENTS, MOMENTS)
def test_what_is_due_lies_in_a_stretch(given_hash: int, moment: int, after: int | None, until: int) -> None:
    (place,) = due_hashes(np.array([given_hash], dtype=np.int64), np.array([moment], dtype=np.int64))
    firsts, lasts = stretches(-(2**63), 2**63 - 1, after, until)
    assert len(firsts) == 256
    found = bool(((firsts <= place) & (place <= lasts)).any())
    near = -(2**55) < moment < 2**55 - 1
    if (after is None or after < moment) and moment <= until:
        assert found
    elif near and moment not in (after, until):
        assert not found
