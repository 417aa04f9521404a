"""Writes docs/reference/logs.md from what the contract suite of logs declares: python -m tools.logs_reference."""

from __future__ import annotations

from pathlib import Path

from tests.contract.guarantees import GUARANTEES, Guarantee

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "logs.md"
_HEAD = """<!-- Made by tools/logs_reference.py from tests/contract/guarantees.py. -->
# What each log guarantees

A log is in a directory of this machine (embedded) or [on Kafka](../guides/kafka.md). Every test of the contract suite
runs for both; the last column names tests that show a guarantee. Where Kafka is weaker, the table says how.

| guarantee | embedded | Kafka | shown by (in tests/contract) |
|---|---|---|---|
"""


def reference() -> str:
    """The page."""
    return _HEAD + "".join(_line(guarantee) for guarantee in GUARANTEES)


def _line(guarantee: Guarantee) -> str:
    tests = ", ".join(f"`{name.removeprefix('test_')}`" for name in guarantee.tests) or "the guide"
    return f"| {guarantee.text} | yes | {guarantee.kafka} | {tests} |\n"


if __name__ == "__main__":
    PAGE.write_text(reference())
