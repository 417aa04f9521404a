"""What every kernel is: a pure function from (old state, changes in) to (changes of state, changes out).

State is a set of named Z-sets, looked up by the hash of the key by which the operator is partitioned. A kernel is given
the old rows of the keys that its changes touch, and answers with the Z-set to add to its state. So state is only ever
added to, for every kernel, and what a batch writes follows from the size of its changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headwater.views.zset import WEIGHT

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Part:
    """One Z-set of a kernel's state: its data columns, and its measures, which add up where the data is the same.

    Its table has `_hash`, the data columns and the measures, `_w` last. `adds_up`: the kernel adds up rows of the same
    data itself, so that they need not be consolidated before. `ports`: of which inputs the keys are looked up in it,
    None for all. `retracted`: only the keys of rows that are retracted are looked up, and the changes that are handed
    in are consolidated.
    """

    schema: pa.Schema
    measures: tuple[str, ...] = (WEIGHT,)
    adds_up: bool = False
    ports: tuple[str, ...] | None = None
    retracted: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch does to one operator: what to add to each part of its state, and what it tells its readers.

    `rows` are for a node of Spark's own, where the operator has one.
    """

    state: Tables
    out: pa.Table
    rows: pa.Table | None = None


class Kernel(Protocol):
    """The stateful part of an operator. Kernels are frozen and can be pickled.

    `ports` has the data columns of each input, `keys` those of them by which its rows are placed, `parts` the Z-sets of
    the state, `output` the columns that come out; `hashed_by` names those of them from which a row's hash follows, None
    if it does not follow from its columns. `consolidated`: what comes out has every row once. What is not consolidated
    may have rows that cancel out and were never there, so no expression may be evaluated on it.

    What a kernel gives it takes back to the bit: it keeps what it gave, or computes it from kept rows in a way that
    depends on nothing else.
    """

    @property
    def ports(self) -> Mapping[str, pa.Schema]: ...

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def parts(self) -> Mapping[str, Part]: ...

    @property
    def output(self) -> pa.Schema: ...

    @property
    def hashed_by(self) -> tuple[str, ...] | None: ...

    @property
    def consolidated(self) -> bool: ...

    def step(self, old: Tables, changes: Tables, *, first: bool = False) -> Step:
        """What these changes do.

        `old` has for each part the rows of all keys that changes of its ports touch, and perhaps rows of other keys,
        consolidated unless the part adds up; `changes` has a Z-set for each port, not consolidated. Both have `_hash`
        first and are there even if they are empty. The tables of `Step.state` have `_hash`, too; `Step.out` has
        `_hash`, the columns of `output` and `_w`.
        `first` is said once in the life of an operator, in its first step, which may have no changes.

        Splitting changes over several steps gives the same sum of outputs and the same state as one step; only `Rows`,
        which tells which groups have changed, tells it again in each step. State that was added to is consolidated by
        the part's measures before it is handed in again.
        """
        ...
