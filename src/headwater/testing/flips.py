"""Bits flipped in the databases that say what is true, one at a time: each is refused or found, none changes anything.

The databases are a small log's catalog and a small view store, once with everything in their pages, and once with the
last commits in their write-ahead logs, as a killed process leaves them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from headwater.engine.arrangements import arrangement_of
from headwater.engine.definition import Definition
from headwater.engine.embedded.database import NAME as STORE
from headwater.engine.embedded.database import WITNESS as STORE_WITNESS
from headwater.engine.embedded.database import SqliteDatabase
from headwater.engine.opening import open_store
from headwater.engine.publication import BatchCommit
from headwater.engine.runs import Run
from headwater.engine.view_store import ViewStore
from headwater.errors import HeadwaterError
from headwater.log.embedded.catalog import NAME as CATALOG
from headwater.log.embedded.catalog import WITNESS as CATALOG_WITNESS
from headwater.log.embedded.catalog import Catalog
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_position
from headwater.system.pages import PAGE_BYTES, BadPage, damaged_pages
from headwater.system.sqlite import Connection
from headwater.system.storage import Storage
from headwater.testing.disk import seeded

Content = dict[str, list[object]]
"""All rows of each table."""


class Opened(Protocol):
    """What the catalog and the store have in common."""

    def read(self) -> AbstractContextManager[Connection]: ...
    def damages(self) -> list[BadPage]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """One file of a database as it was left; `reopen` opens the database in its directory."""

    name: str
    directory: Path
    file: str
    reopen: Callable[[Path], Opened]

    @property
    def path(self) -> Path:
        return self.directory / self.file

    @property
    def bits(self) -> int:
        return 8 * self.path.stat().st_size


@dataclass(slots=True)
class FlipFigures:
    """What a run came to, by target: flips that opening or reading refused, and those that only a check found."""

    flips: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    broken: list[tuple[str, str]] = field(default_factory=list)


def build_targets(folder: Path) -> list[Target]:
    """Makes the databases; each of their files in turn is a target."""
    _build_log(folder / "log", folder / "log used")
    _build_store(folder / "store", folder / "store used")
    return [
        Target("catalog", folder / "log", CATALOG, _open_catalog),
        Target("catalog's witness", folder / "log", CATALOG_WITNESS, _open_catalog),
        Target("catalog's write-ahead log", folder / "log used", f"{CATALOG}-wal", _open_catalog),
        Target("store", folder / "store", STORE, _open_store),
        Target("store's witness", folder / "store", STORE_WITNESS, _open_store),
        Target("store's write-ahead log", folder / "store used", f"{STORE}-wal", _open_store),
    ]


def flip_bits(
    targets: Sequence[Target],
    choose: Callable[[Target], Iterable[int]],
    *,
    progress: Callable[[FlipFigures], None] = lambda _: None,
) -> FlipFigures:
    """Flips each of the chosen bits of each target, one at a time, and puts it back."""
    figures = FlipFigures()
    for target in targets:
        with closing(target.reopen(target.directory)) as database:
            expected, damages = _content(database), database.damages()
        if damages:
            figures.broken.append((target.name, f"damaged before anything was done to it: {damages}"))
        for bit in choose(target):
            figures.flips += 1
            _try(target, bit, expected, figures)
            progress(figures)
    return figures


def check_every_bit(target: Target) -> tuple[int, list[str]]:
    """Flips each bit of the pages, the same one in all at once, and checks them; how many, and those not found."""
    whole = np.frombuffer(target.path.read_bytes(), np.uint8).reshape(-1, PAGE_BYTES)
    expected = {f"page {number + 1}" for number in range(len(whole))}
    missed: list[str] = []
    for bit in range(8 * PAGE_BYTES):
        flipped = whole.copy()
        flipped[:, bit // 8] ^= 1 << bit % 8
        target.path.write_bytes(flipped.tobytes())
        found = {bad.place for bad in damaged_pages(target.path)}
        missed += [f"{target.name}, {page}, bit {bit}" for page in sorted(expected - found)]
    target.path.write_bytes(whole.tobytes())
    return 8 * whole.size, missed


def sample_bits(seed: int, part: float) -> Callable[[Target], Iterable[int]]:
    """A part of all bits, by chance."""

    def choose(target: Target) -> Iterable[int]:
        return sorted(seeded(f"{seed} {target.name}").sample(range(target.bits), int(target.bits * part)))

    return choose


def shard_bits(shard: int, shards: int) -> Callable[[Target], Iterable[int]]:
    """One of several runs that together flip every bit."""
    return lambda target: range(shard, target.bits, shards)


def _try(target: Target, bit: int, expected: Content, figures: FlipFigures) -> None:
    _flip(target.path, bit)
    try:
        counts = figures.refused if _is_refused(target, expected) else figures.found
        counts[target.name] = counts.get(target.name, 0) + 1
    except Exception as error:  # noqa: BLE001 (whatever comes up is a finding)
        figures.broken.append((f"{target.name}:{bit}", f"{type(error).__name__}: {error}"))
    finally:
        _flip(target.path, bit)


def _is_refused(target: Target, expected: Content) -> bool:
    """Whether opening or reading says that something is wrong; if neither does, all is as it was, and a check does."""
    try:
        database = target.reopen(target.directory)
    except HeadwaterError as error:
        return _must_say_damaged(error)
    with closing(database):
        try:
            content = _content(database)
        except HeadwaterError as error:
            return _must_say_damaged(error)
        if content != expected:
            raise AssertionError("the content is different, and nothing said so")
        if not database.damages():
            raise AssertionError("the content is the same, and the check found nothing")
    return False


def _must_say_damaged(error: HeadwaterError) -> bool:
    if not getattr(error, "damaged", False):
        raise AssertionError(f"{type(error).__name__} does not say that it is damaged: {error}")
    return True


def _content(database: Opened) -> Content:
    with database.read() as tx:
        names = [name for (name,) in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: tx.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def _flip(path: Path, bit: int) -> None:
    with path.open("r+b", buffering=0) as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def _open_catalog(directory: Path) -> Opened:
    return Catalog(directory, Storage(), "fsync")


def _open_store(directory: Path) -> Opened:
    return SqliteDatabase(directory, Storage(), create=False)


def _build_log(directory: Path, used: Path) -> None:
    with EmbeddedLog(directory, upkeep=False) as log:
        log.create("orders", "id bigint, note string", key="id", partitions=2)
        log.create("short", "id bigint")
        log.append("orders", [{"id": number, "note": f"note {number}"} for number in range(20)])
        log.producer("orders", name="shop").close()
        log.drop("short")
        with log.commit() as commit:
            commit.bookmark("place", {"at": 7})
    with EmbeddedLog(directory, upkeep=False) as log:
        log.append("orders", [{"id": 30, "note": "late"}])
        with log.commit() as commit:
            commit.bookmark("place", {"at": 8})
        shutil.copytree(directory, used, ignore=shutil.ignore_patterns("*-shm"))


def _build_store(directory: Path, used: Path) -> None:
    with open_store(directory) as store:
        epoch, generation = store.take_over(), store.open_generation("one", Definition()).id
        _publish(store, generation, epoch, batch=1)
    with open_store(directory) as store:
        _publish(store, generation, store.take_over(), batch=2)
        shutil.copytree(directory, used, ignore=shutil.ignore_patterns("*-shm"))


def _publish(store: ViewStore, generation: int, epoch: int, *, batch: int) -> None:
    run = Run(arrangement_of("totals"), f"{batch}.run", 0, batch, batch, 10, 1000)
    store.blobs.put(run.file, [])
    position = commit_position(batch)
    store.commit(BatchCommit(generation, epoch, batch, position, [run], changes={"totals": [run]}, promote=True))
