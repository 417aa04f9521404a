"""The processes of a torture: each does one thing with the log until it is killed, and says what it was told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from headwater.errors import Fenced, UnknownTopic
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.position import commit_of
from headwater.log.options import TopicOptions
from headwater.testing.ledger import Channel

LEASE = timedelta(seconds=1)
KEYS = 20
RING_BYTES = 200_000
KEPT: TopicOptions = {"cleanup": "none", "segment_bytes_max": 40_000}
COMPACTED: TopicOptions = {"cleanup": "compact", "segment_bytes_max": 40_000}
# Between two commits a process rests at most so long: enough are killed inside a commit all the same.
REST_SECONDS_MAX = 0.01


@dataclass(frozen=True, slots=True)
class Victim:
    """What a process knows when it begins: who it is, and where it continues."""

    name: str
    log: EmbeddedLog
    channel: Channel
    random: Random
    tried: int
    last: int

    def rest(self) -> None:
        time.sleep(self.random.random() * REST_SECONDS_MAX)


def create_topics(directory: Path) -> None:
    """The topics that all processes share."""
    columns = "writer string, n bigint, i int, rows int"
    move = "writer string, n bigint, amount bigint"
    with EmbeddedLog(directory) as log:
        log.create("plain", columns, key="i", partitions=4, **KEPT)
        log.create("copies", columns + ", source bigint", partitions=4, **KEPT)
        log.create("debits", move, partitions=2, **KEPT)
        log.create("credits", move, partitions=2, **KEPT)
        log.create("numbered", "writer string, n bigint, note string", **KEPT)
        log.create("latest", "writer string, slot int, n bigint", key=("writer", "slot"), **COMPACTED)
        log.create("ring", "n bigint, note string", retention_bytes=RING_BYTES, hold_bytes_max=0)


def append(victim: Victim) -> None:
    """Plain appends of several records, spread over all partitions."""
    n = victim.tried
    while True:
        n += 1
        count = 1 + n % 8
        rows = [{"writer": victim.name, "n": n, "i": i, "rows": count} for i in range(count)]
        victim.channel.trying(n)
        position = victim.log.append("plain", rows)
        victim.channel.acknowledged(n, commit_of(position))
        victim.rest()


def send(victim: Victim) -> None:
    """Many single records at once, each with an acknowledgement of its own."""
    n = victim.tried
    with victim.log.producer("plain") as producer:
        while True:
            numbers = range(n + 1, n + 21)
            for number in numbers:
                victim.channel.trying(number)
            sent = [
                producer.send({"writer": victim.name, "n": number, "i": number % 16, "rows": 1}) for number in numbers
            ]
            for number, future in zip(numbers, sent, strict=True):
                victim.channel.acknowledged(number, commit_of(future.result(timeout=60)))
            n = numbers[-1]
            victim.rest()


def transfer(victim: Victim) -> None:
    """Moves an amount from one topic to another, in one commit, on condition that the last one is what it was."""
    bookmark = victim.name
    found = victim.log.bookmark(bookmark) or 0
    assert isinstance(found, int)
    victim.channel.goes_on_behind(found)
    n = found
    while True:
        n += 1
        amount = 1 + n % 97
        parts = [amount // 2, amount - amount // 2]
        victim.channel.trying(n)
        with victim.log.commit() as commit:
            commit.append("debits", [{"writer": victim.name, "n": n, "amount": -amount}], partition=n % 2)
            commit.append("credits", [{"writer": victim.name, "n": n, "amount": part} for part in parts])
            commit.bookmark(bookmark, n, expect=n - 1 if n > 1 else None)
        victim.channel.acknowledged(n, commit_of(commit.position))
        victim.rest()


def produce(victim: Victim) -> None:
    """Numbered commits; the first one repeats what may have happened before."""
    n = victim.last
    with victim.log.producer(name=victim.name) as producer:
        while True:
            n += 1
            victim.channel.trying(n)
            with victim.log.commit(producer=producer, sequence=n) as commit:
                commit.append("numbered", [{"writer": victim.name, "n": n, "note": "x" * (n % 50)}])
            result = commit.result
            victim.channel.acknowledged(n, commit_of(commit.position))
            if result.duplicate:
                victim.channel.counted()
            victim.rest()


def copy(victim: Victim) -> None:
    """One member of a group that copies a topic exactly once: the copy and the group's offsets in one commit."""
    with victim.log.consumer("plain", group="copying", lease=LEASE) as consumer:
        for batch in consumer:
            source = batch.records["_offset"]
            rows = batch.records.select(["writer", "n", "i", "rows"]).append_column("source", source)
            try:
                with victim.log.commit() as commit:
                    commit.append("copies", rows, partition=batch.partition)
                    commit.offsets(consumer)
            except Fenced:
                continue
            victim.channel.counted(rows.num_rows)


def read(victim: Victim) -> None:
    """Follows the transfers commit by commit: at no position is there one side without the other."""
    log, position = victim.log, victim.log.position()
    while True:
        newer = log.wait(position, timedelta(seconds=5))
        sums: dict[tuple[str, int], int] = {}
        for topic in ("debits", "credits"):
            table = log.scan(topic, start=position, end=newer, columns=["writer", "n", "amount"])
            for row in table.to_pylist():
                key = (row["writer"], row["n"])
                sums[key] = sums.get(key, 0) + row["amount"]
        torn = {key: total for key, total in sums.items() if total}
        if torn:
            victim.channel.complain(f"between {position} and {newer} there are transfers in part: {torn}")
        victim.channel.counted(len(sums))
        position = newer


def follow(victim: Victim) -> None:
    """Follows one topic record by record: no offset is left out, none comes twice, and commits only grow."""
    start = dict.fromkeys(range(4), 0)
    following: dict[int, tuple[int, int]] = {}
    for batch in victim.log.batches("plain", start=start, follow=True, columns=["_offset", "_commit"]):
        offsets, commits = batch.records["_offset"].to_pylist(), batch.records["_commit"].to_pylist()
        last_offset, last_commit = following.get(batch.partition, (-1, 0))
        if offsets != list(range(last_offset + 1, last_offset + 1 + len(offsets))):
            victim.channel.complain(f"partition {batch.partition}: offsets {offsets[:5]}… after {last_offset}")
        if [last_commit, *commits] != sorted([last_commit, *commits]):
            victim.channel.complain(f"partition {batch.partition}: commits {commits[:5]}… after {last_commit}")
        following[batch.partition] = (offsets[-1], commits[-1])
        victim.channel.counted(len(offsets))


def update(victim: Victim) -> None:
    """New values for the same keys, over and over."""
    n = victim.tried
    while True:
        n += 1
        victim.channel.trying(n)
        position = victim.log.append("latest", [{"writer": victim.name, "slot": n % KEYS, "n": n}])
        victim.channel.acknowledged(n, commit_of(position))
        victim.rest()


def ring(victim: Victim) -> None:
    """A topic that keeps only this many bytes."""
    n = victim.tried
    while True:
        n += 1
        victim.channel.trying(n)
        position = victim.log.append("ring", [{"n": n, "note": "x" * 500}])
        victim.channel.acknowledged(n, commit_of(position))
        victim.rest()


def maintain(victim: Victim) -> None:
    """Seals, compacts, retains and sweeps without end."""
    while True:
        victim.log.seal(victim.random.choice(["plain", "copies", "debits", "credits", "numbered", "latest"]))
        victim.log.compact("latest")
        victim.log.upkeep()
        victim.channel.counted()
        time.sleep(victim.random.random() * 0.1)


def check(victim: Victim) -> None:
    """Reads everything back, while all others continue."""
    while True:
        findings = list(victim.log.check())
        if findings:
            victim.channel.complain(f"check found {findings[0]}")
        victim.channel.counted()
        time.sleep(victim.random.random() * 0.5)


def drop(victim: Victim) -> None:
    """Topics that come and go."""
    n = victim.tried
    while True:
        for topic in victim.log.topics():
            if topic.name.startswith("brief-"):
                victim.log.drop(topic.name)
        n += 1
        victim.channel.trying(n)
        name = f"brief-{n % 3}"
        victim.log.create(name, "id bigint", partitions=2, segment_bytes_max=300)
        for i in range(4):
            victim.log.append(name, [{"id": i}, {"id": -i}], partition=i % 2)
        try:
            victim.log.seal(name)
        except UnknownTopic as error:
            victim.channel.complain(f"{name} is gone: {error}")
        victim.log.drop(name)
        victim.channel.acknowledged(n, 0)
        victim.rest()


ROLES: dict[str, Callable[[Victim], None]] = {
    "appender": append,
    "sender": send,
    "transfer": transfer,
    "producer": produce,
    "copier": copy,
    "reader": read,
    "follower": follow,
    "updater": update,
    "ringer": ring,
    "keeper": maintain,
    "checker": check,
    "dropper": drop,
}

CAST = (
    "appender-1", "appender-2", "sender-1", "transfer-1", "transfer-2", "producer-1", "copier-1", "copier-2",
    "reader-1", "follower-1", "updater-1", "ringer-1", "keeper-1", "checker-1", "dropper-1",
)  # fmt: skip
"""Who takes part: a role and a number."""
