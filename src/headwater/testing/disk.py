"""A disk at one moment: what is surely on it, what may be, and the states in which a power cut may leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

CATALOG = frozenset({"catalog.db", "catalog.db-wal"})
# Shared memory is not on the disk, and SQLite builds it anew.
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
        random = seeded(seed)
        if self.name not in self.names.get("..", ()) and not _happens(random, seed):
            return False
        destination.mkdir()
        kept = {"."}
        for directory in sorted(self.directories):
            if _above(directory) in kept and (self._is_sure(directory) or _happens(random, seed)):
                (destination / directory).mkdir()
                kept.add(directory)
        keep_catalog = "catalog.db" in self.names.get(".", ()) or _happens(random, seed)
        for path, content in sorted(self.files.items()):
            if path in CATALOG:
                present = keep_catalog
            else:
                present = _above(path) in kept and (self._is_sure(path) or _happens(random, seed))
            if present:
                chosen = self._content(path, content, random, seed)
                (destination / path).write_bytes(chosen)
        for path, content in sorted(self.removed.items()):
            if path not in self.files and _above(path) in kept and not _happens(random, seed):
                (destination / path).write_bytes(content)
        return True

    def _is_sure(self, path: str) -> bool:
        return Path(path).name in self.names.get(_above(path), ()) and path not in self.removed

    def _content(self, path: str, content: bytes, random: Random, seed: int) -> bytes:
        if path in self.removed and not _happens(random, seed):
            # The name still stands for the file that was removed before this one was made.
            return self.removed[path]
        if path in CATALOG and path not in self.synced:
            return content
        return torn(self.synced.get(path, b""), content, random, seed)


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


def _happens(random: Random, seed: int) -> bool:
    """Whether a change that was not synced reached the disk."""
    if seed == NOTHING_UNSYNCED:
        return False
    return seed == EVERYTHING or random.random() < 0.5
