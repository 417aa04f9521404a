"""Transfers money for ever, and says what was acknowledged: a process that is made to be killed."""

from __future__ import annotations

import itertools
import sys

import headwater as hw

if __name__ == "__main__":
    with hw.open(sys.argv[1], create=False, upkeep=False) as log:
        for number in itertools.count(int(sys.argv[2])):
            with log.commit() as commit:
                commit.append("withdrawals", [{"transfer": number, "amount": 1}])
                commit.append("deposits", [{"transfer": number, "amount": 1}])
            print(number, flush=True)
