"""The table of guarantees is what the contract suite declares, and what it declares is tested for both logs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.conftest import IMPLEMENTATIONS
from tests.contract.guarantees import GUARANTEES
from tools.logs_reference import PAGE, reference

SUITE = Path(__file__).parents[1] / "contract"


def test_the_table_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python -m tools.logs_reference"


def test_every_guarantee_that_both_logs_give_is_tested() -> None:
    assert {"embedded", "kafka"} <= set(IMPLEMENTATIONS)
    text = "\n".join(path.read_text() for path in SUITE.glob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    left_to_others = set(re.findall(r"@pytest.mark.long_on_kafka\n(?:@.*\n)*def (test_\w+)", text))
    for guarantee in GUARANTEES:
        assert guarantee.kafka.startswith(("same", "weaker: ", "not available: "))
        assert set(guarantee.tests) <= tests - left_to_others
        assert guarantee.tests or not guarantee.kafka.startswith("same"), guarantee.text


def test_no_test_of_the_suite_asks_which_log_it_has() -> None:
    for path in SUITE.glob("test_*.py"):
        assert "KafkaLog" not in path.read_text()
        assert "KafkaImplementation" not in path.read_text()
