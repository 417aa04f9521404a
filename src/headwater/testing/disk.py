"""A disk at one moment: what is surely on it, what may be, and the states in which a power cut may leave it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

CATALOG = frozenset({"catalog.db", "catalog.db-wal"})
# Shared memory is not on the disk, and SQLite rebuilds it.
MEMORY = "catalog.db-shm"
SECTOR = 512
# Two seeds are the ends of the scale; all others lie between them.
NOTHING_UNSYNCED, EVERYTHING = 0, 1


@dataclass(frozen=True, slots=True)
class Disk:
    """The log's directory as processes see it, and what of it was synced.

    Paths are relative to the log's directory; "." is that directory, and ".." the one above it. `names` has each
    directory's names as they were when it was last synced, `synced` each file's bytes, `removed` the files that were
    removed since their directory was synced. The catalog's files are SQLite's own affair: it syncs them, and their
    names, before a COMMIT returns.
    """

    name: str
    files: Mapping[str, bytes]
    directories: frozenset[str]
    synced: Mapping[str, bytes]
    names: Mapping[str, frozenset[str]]
    removed: Mapping[str, bytes]

    def image(self, destination: Path, seed: int) -> bool:
        """Writes the directory as the disk may hold it after a power cut; False if it may have lost all of it.

        Synced bytes are there. Unsynced ones are there, or not, or up to some point, or torn. Names that were made or
        removed since their directory was synced are there, or not.
        """
        if self.name not in self.names.get("..", ()) and not _happens("..", seed):
            return False
        destination.mkdir()
        kept = {"."}
        for directory in sorted(self.directories):
            if _above(directory) in kept and (self._is_sure(directory) or _happens(directory, seed)):
                (destination / directory).mkdir()
                kept.add(directory)
        for path, content in self.files.items():
            # Either both files of the catalog are there or none: the second is no use without the first.
            name = "catalog.db" if path in CATALOG else path
            if _above(path) in kept and (self._is_sure(name) or _happens(name, seed)):
                (destination / path).write_bytes(self._content(path, content, seed))
        for path, content in self.removed.items():
            if path not in self.files and _above(path) in kept and not _happens(path, seed):
                (destination / path).write_bytes(content)
        return True

    def _is_sure(self, path: str) -> bool:
        return Path(path).name in self.names.get(_above(path), ()) and path not in self.removed

    def _content(self, path: str, content: bytes, seed: int) -> bytes:
        if path in self.removed and not _happens(path, seed):
            # The name still stands for the file that was removed before this one was made.
            return self.removed[path]
        if path in CATALOG and path not in self.synced:
            return content
        return torn(self.synced.get(path, b""), content, _random(f"content of {path}", seed), seed)


def seeded(seed: int | str) -> Random:
    """Random numbers that a seed replays."""
    return Random(seed)  # noqa: S311 (not for secrets)


def torn(synced: bytes, written: bytes, random: Random, seed: int) -> bytes:
    """What a disk may hold of a file that was synced and then written to: every byte that did not change, at least."""
    if seed == NOTHING_UNSYNCED or synced == written:
        return synced
    if seed == EVERYTHING:
        return written
    sure = _common(synced, written)
    way = random.choice(["synced", "written", "up to some point", "torn"])
    if way == "synced":
        return synced
    if way == "written":
        return written
    end = random.randint(sure, max(sure, len(written)))
    if way == "up to some point":
        return written[:end]
    return written[:sure] + b"".join(
        _sector(synced[at : at + SECTOR], written[at : at + SECTOR], random) for at in range(sure, end, SECTOR)
    )


def _sector(synced: bytes, written: bytes, random: Random) -> bytes:
    """One sector that was on its way to the disk: new, old, empty, or anything."""
    return random.choice(
        [written, synced.ljust(len(written), b"\0"), bytes(len(written)), random.randbytes(len(written))]
    )


def _common(first: bytes, second: bytes) -> int:
    """How many bytes both begin with."""
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    return next(index for index in range(shorter) if first[index] != second[index])


def _above(path: str) -> str:
    return Path(path).parent.as_posix()


def _happens(path: str, seed: int) -> bool:
    """Whether a change that was not synced reached the disk."""
    if seed == NOTHING_UNSYNCED:
        return False
    return seed == EVERYTHING or _random(path, seed).random() < 0.5


def _random(path: str, seed: int) -> Random:
    """Chances that depend on the file, and not on the part of its name that differs from run to run."""
    return seeded(f"{seed} {re.sub(r'-[0-9a-f]{12}', '', path)}")
