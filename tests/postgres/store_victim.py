"""A driver that publishes batch after batch into a view store until it is killed, and says what it knows of each."""

from __future__ import annotations

import sys

from tests.unit.engine.samples import Driver, zset


def main(address: str) -> None:
    driver = Driver(address)
    while True:
        number = driver.batch + 1
        print(f"begins {number}", flush=True)
        driver.publish({"v": zset((number, number, "a", 1))})
        print(f"has {number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
