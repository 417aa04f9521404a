"""What rounds found, as JSON."""

from __future__ import annotations

import json

from headwater.engine.comparison import Difference
from tools.fuzzing.findings import Figures, Finding


def test_figures_as_json() -> None:
    figures = Figures(rounds=2, findings=[Finding("v", "SELECT 1", 3, [Difference({"a": 1}, 1)], note="wrong")])
    figures.refused["first() without an order"] += 2
    figures.seconds["batches"] += 1.5  # type: ignore[assignment]
    made = json.loads(json.dumps(figures.to_json()))
    assert (made["rounds"], made["refused"]) == (2, {"first() without an order": 2})
    assert made["seconds"] == {"batches": 1.5}
    (finding,) = made["findings"]
    assert (finding["view"], finding["note"], finding["differences"][0]["surplus"]) == ("v", "wrong", 1)
