"""The alert rules, and a small evaluator: `metric{label="x"} OP number`, also of the increase between two scrapes."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

RULES = Path(__file__).parents[2] / "docs" / "guides" / "alerts.yml"
COMPARISONS = {"==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge}
_EXPRESSION = re.compile(
    r"(?:(?P<increase>increase)\()?(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})?(?:\[\w+\]\))? "
    r"(?P<compare>\S+) (?P<limit>\S+)"
)
_RULE = re.compile(r"- alert: (\w+)\n +expr: (.+)\n")
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


def rules() -> dict[str, str]:
    """The expression of each rule, by its name."""
    return dict(_RULE.findall(RULES.read_text()))


def scraped(text: str) -> dict[Series, float]:
    """What a scrape has."""
    found: dict[Series, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _LINE.fullmatch(line)
            assert match is not None, line
            found[match[1], frozenset(_LABEL.findall(match[2] or ""))] = float(match[3])
    return found


def firing(expression: str, now: str, before: str | None = None) -> list[Mapping[str, str]]:
    """The labels of each series for which an expression is true; `before` is an earlier scrape, as now if not given."""
    match = _EXPRESSION.fullmatch(expression)
    assert match is not None, expression
    wanted = set(_LABEL.findall(match["labels"] or ""))
    earlier = scraped(now if before is None else before)
    fired: list[Mapping[str, str]] = []
    for (name, labels), value in scraped(now).items():
        if name == match["name"] and wanted <= labels:
            measured = value - earlier.get((name, labels), value) if match["increase"] else value
            if COMPARISONS[match["compare"]](measured, float(match["limit"])):
                fired.append(dict(labels))
    return fired
