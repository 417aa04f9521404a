"""What every kernel is: a pure function from (old state, changes in) to (changes of state, changes out).

State is a set of named Z-sets, looked up by the hash of the key by which the operator is partitioned. A kernel is given
the old rows of the keys that its changes touch, and answers with the Z-set to add to its state. So state is only ever
added to, for every kernel, and what a batch writes follows from the size of its changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headwater.views.frontier import Frontier
from headwater.views.time_order import Hashes
from headwater.views.zset import WEIGHT

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Due:
    """When rows of a state are due: at the moment in a column, by a time source.

    `in_order`: the state lies in due order (`views/due_order.py`), so that what is due is found without reading the
    rest. The column has microseconds since 1970 then, and the kernel gives its rows their hashes by `due_hashes`.
    """

    source: str
    column: str
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One Z-set of a kernel's state: its data columns, and its measures, which add up where the data is the same.

    Its table has `_hash`, the data columns and the measures, `_w` last. `adds_up`: the kernel adds up rows of the same
    data itself, so that they need not be consolidated before. `ports`: of which inputs the keys are looked up in it,
    None for all. `retracted`: only the keys of rows that are retracted are looked up, and the changes that are handed
    in are consolidated. `due`: rows are also handed in when their moment has come, whatever their key is; the
    part is read in full for that, whenever the time of its source advances. Of a part that lies in due order only what
    is due is read, and nothing by keys: a step is handed the rows whose moment has come since the step before, once,
    and takes them out. `in_time`: the part lies in time order (`views/time_order.py`): the kernel gives its rows their
    hashes by `time_hashes`, and `Kernel.lookup` says which of them a step is handed.
    """

    schema: pa.Schema
    measures: tuple[str, ...] = (WEIGHT,)
    adds_up: bool = False
    ports: tuple[str, ...] | None = None
    retracted: bool = False
    due: Due | None = None
    in_time: bool = False


class Held(Protocol):
    """What the parts of a state that lie in time order hold, before a step."""

    def between(self, part: str, firsts: Hashes, lasts: Hashes) -> pa.Table:
        """The rows whose hash is in one of some stretches, given by their first and last hashes; consolidated.

        Stretches may overlap. There may be more rows than that.
        """
        ...

    def back(self, part: str, hashes: Hashes, count: int) -> Hashes:
        """For each hash one that is about `count` rows of the same key before it, or the first of the key.

        Rows that were taken out may count. The higher the count, the further back it is, until it is the first one.
        """
        ...

    def ahead(self, part: str, hashes: Hashes, count: int) -> Hashes:
        """For each hash one that is about `count` rows of the same key after it, or the last of the key."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch does to one operator: what to add to each part of its state, and what it tells its readers.

    `rows` are for a node of Spark's own, where the operator has one.
    """

    state: Tables
    out: pa.Table
    rows: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A kernel that does the same for fewer columns, and which of them are left, by their places before."""

    kernel: Kernel
    output: Sequence[int]
    ports: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel does, for people: what it adds up, and what it computes again for the groups that are touched."""

    added_up: Sequence[str] = ()
    recomputed: Sequence[str] = ()


class Narrowing(Protocol):
    """Leaves out columns that nobody uses."""

    def narrowed(self, used: Collection[int]) -> Narrowed:
        """The kernel with the output columns at these places, and the others that it needs."""
        ...


class Summation(Protocol):
    """Adds rows up before they travel to their operator."""

    def summed(self, rows: pa.Table, *, apart: bool = False) -> pa.Table:
        """Rows of `Kernel.brought` and their weights as rows of `Kernel.ports`, those of a key in one.

        `apart`: each row by itself, because hardly any two would become one. The sum is the same.
        """
        ...


class Kernel(ABC):
    """The stateful part of an operator. Kernels are frozen and can be pickled.

    What a kernel gives it takes back to the bit: it keeps what it gave, or computes it from kept rows in a way that
    depends on nothing else.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def ports(self) -> Mapping[str, pa.Schema]:
        """The data columns of each input, as a step is given them."""

    @property
    @abstractmethod
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each input by which its rows are placed."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Part]:
        """The Z-sets of the state."""

    @property
    @abstractmethod
    def output(self) -> pa.Schema:
        """The columns that come out."""

    @property
    @abstractmethod
    def hashed_by(self) -> tuple[str, ...] | None:
        """The columns of the output from which a row's hash follows; None if it does not follow from its columns."""

    @property
    def consolidated(self) -> bool:
        """Whether what comes out has every row once.

        What is not consolidated may have rows that cancel out and were never there, so no expression may be evaluated
        on it before it is.
        """
        return True

    @property
    def summation(self) -> Summation | None:
        """What rows become before they travel; None if they travel as they are brought."""
        return None

    @property
    def brought(self) -> Mapping[str, pa.Schema]:
        """The columns that edges bring to each port: those of `ports` if there is no `summation`."""
        return self.ports

    @property
    def time_sources(self) -> Collection[str]:
        """The time sources whose progress alone makes it act. Parts of its state may have rows that are due by them."""
        return ()

    @property
    def in_buckets(self) -> bool:
        """Whether its rows go to tasks by the bucket of their hash, as parts that lie in due order need it.

        The hashes that it is given are those of buckets then, and nothing follows from them about a row.
        """
        return any(part.due is not None and part.due.in_order for part in self.parts.values())

    @property
    def narrowing(self) -> Narrowing | None:
        """How it leaves out output columns that nobody uses; None if it needs all of its columns."""
        return None

    def work(self, shown: Callable[[str], str]) -> Work:
        """What it does. `shown` says what to call a column that an edge brings."""
        del shown
        return Work()

    def lookup(self, changes: Tables, held: Held) -> Tables:
        """What a step with these changes needs of each part that lies in time order."""
        del changes, held
        return {}

    @abstractmethod
    def step(self, old: Tables, changes: Tables, frontier: Frontier, *, first: bool = False) -> Step:
        """What these changes do, and the time that has passed.

        It is called for a batch that has changes for a port, in which one of its `time_sources` has advanced, or which
        is the first, so that changes may be empty; otherwise it is not called, and an operator costs nothing.

        `old` has for each part the rows of all keys that changes of its ports touch, and perhaps rows of other keys,
        consolidated unless the part adds up; if its rows are due by a source that has advanced, also all rows whose
        moment is at the frontier or before it; of a part in time order what `lookup` found. `changes` has a Z-set for
        each port, not consolidated. Both have `_hash` first and are there even if they are empty. `frontier` is how far
        time has come at the end of the batch; it never moves back. The tables of `Step.state` have `_hash`, too;
        `Step.out` has `_hash`, the columns of `output` and `_w`. `first` is said once in the life of an operator, in
        its first step.

        Splitting changes over several steps with the same frontier gives the same sum of outputs and the same state as
        one step; only `Rows`, which tells which groups have changed, tells it again in each step. State that was added
        to is consolidated by the part's measures before it is handed in again.
        """


@dataclass(frozen=True, slots=True)
class KeyedKernel(Kernel):
    """A kernel that places its input, its state and its output by one key among its columns."""

    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def ports(self) -> Mapping[str, pa.Schema]:
        return {"rows": self.schema}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        return dict.fromkeys(self.ports, self.key)

    @property
    def parts(self) -> Mapping[str, Part]:
        return {"rows": Part(self.schema)}

    @property
    def output(self) -> pa.Schema:
        return self.schema

    @property
    def hashed_by(self) -> tuple[str, ...] | None:
        return self.key
