"""Which rows of chunks are let in, and which keys are gone at the end, of tables that are read while changes flow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.connectors.capture.windows import SEEN_PARTS_MAX, Windows
from tests.unit.connectors.capture.queries import SeesUpTo


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int32())})


def pass_by(windows: Windows, table: str, number: int, transaction: int) -> None:
    windows.rows(table, rows(number), np.array([transaction]))


def test_a_row_that_passed_unseen_by_the_chunk_is_not_let_in() -> None:
    windows = Windows()
    windows.open("job", "t", ("n",), purge=False)
    pass_by(windows, "t", 2, 20)
    pass_by(windows, "t", 3, 5)
    pass_by(windows, "other", 1, 20)
    assert windows.entering("job", rows(1, 2, 3), SeesUpTo(10)).to_pydict() == {"n": [1, 3]}
    windows.emptied("other", 20)
    assert windows.entering("job", rows(1), SeesUpTo(10)).num_rows == 1
    windows.emptied("t", 20)
    assert windows.entering("job", rows(1), SeesUpTo(10)).num_rows == 0


def test_what_everybody_sees_is_forgotten() -> None:
    windows = Windows()
    windows.seen_by_all(SeesUpTo(10))
    windows.open("job", "t", ("n",), purge=False)
    pass_by(windows, "t", 1, 10)
    windows.seen_by_all(SeesUpTo(15))
    assert windows.entering("job", rows(1), SeesUpTo(15)).num_rows == 1


def test_keys_that_were_neither_read_nor_changed_are_gone() -> None:
    windows = Windows()
    pass_by(windows, "t", 1, 1)
    windows.open("job", "t", ("n",), purge=True)
    for _ in range(SEEN_PARTS_MAX + 2):
        pass_by(windows, "t", 2, 20)
    windows.open("another", "u", ("n",), purge=False)
    windows.open("job", "t", ("n",), purge=True)
    windows.read("job", rows(3))
    windows.read("another", rows(4))
    windows.keep({"job"})
    assert windows.gone("job", rows(1, 2, 3, 4)).to_pydict() == {"n": [1, 4]}


def test_jobs_that_there_are_no_more_are_forgotten() -> None:
    windows = Windows()
    windows.open("job", "t", ("n",), purge=True)
    pass_by(windows, "t", 1, 1)
    windows.keep([])
    windows.open("job", "t", ("n",), purge=True)
    assert windows.gone("job", rows(1)).num_rows == 1
    windows.close()
    pass_by(windows, "t", 1, 1)
