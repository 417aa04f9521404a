"""Processes over one group, to be killed: some copy what they are given, one resets the group again and again.

python group_victim.py copy DIRECTORY             copies clicks, with the offsets in the same commit
python group_victim.py reset DIRECTORY SEED       prints "? PARTITION OFFSET POSITION", then "! POSITION"
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from datetime import timedelta

from headwater.errors import Fenced
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.port import Log

GROUP, PARTITIONS = "copying", 3
LEASE = timedelta(seconds=1)


def copy(log: Log) -> None:
    with log.consumer("clicks", group=GROUP, lease=LEASE) as consumer:
        for batch in consumer:
            # What was delivered before a reset, or to a member that was taken for dead, comes again.
            with suppress(Fenced), log.commit() as commit:
                commit.offsets(consumer)
                rows = batch.records.select(["_partition", "_offset", "user_id", "n"])
                commit.append("copies", rows.rename_columns(["partition", "offset", "user_id", "n"]))


def reset(log: Log, seed: int) -> None:
    chooser = random.Random(seed)
    while True:
        partition = chooser.randrange(PARTITIONS)
        first, end = log.offsets("clicks")[partition]
        offset = chooser.randint(first, end)
        print("?", partition, offset, log.position(), flush=True)
        log.reset_group(GROUP, {partition: offset}, topics="clicks", force=True)
        print("!", log.position(), flush=True)
        time.sleep(chooser.random() * 0.1)


if __name__ == "__main__":
    with EmbeddedLog(sys.argv[2], create=False, durability="os", upkeep=False) as opened:
        if sys.argv[1] == "copy":
            copy(opened)
        else:
            reset(opened, int(sys.argv[3]))
