"""The report of a run of the matrix: the counts, what was refused, what is open, and every failure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from tests.matrix.running import Result


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many cases there are of each kind."""
    found = Counter(result.status for result in results)
    accepted = found["equal"] + found["open"] + found["failed"]
    return {
        "cases": sum(found.values()),
        "accepted": accepted,
        "equal": found["equal"],
        "open": found["open"],
        "different": found["failed"],
        "refused": found["refused"],
        "invalid in Spark": found["invalid"],
        "failing in Spark": found["undecided"],
    }


def by_family(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    """The counts of each family of cases."""
    families: dict[str, list[Result]] = {}
    for result in results:
        families.setdefault(result.case.family, []).append(result)
    return {family: counts(found) for family, found in sorted(families.items())}


def markdown(results: Sequence[Result], findings: Sequence[str], seconds: float, seed: int) -> str:
    """All of it as text."""
    total = counts(results)
    compared, rows = sum(one.comparisons for one in results), sum(one.rows for one in results)
    lines = [
        f"# The matrix: {total['different']} failures",
        f"seed {seed}, {seconds:.0f} s, {compared} comparisons of {rows} rows",
        "",
        *_table({**by_family(results), "all": total}),
        "",
        "## Failures",
        *(_failure(result) for result in results if result.status == "failed"),
        *(f"- {finding}" for finding in findings),
        "",
        "## Functions of which no case is valid",
        ", ".join(uncalled(results)) or "none",
        "",
        "## Refused, by construct",
        *_grouped((result.construct, result) for result in results if result.status == "refused"),
        "",
        "## Open",
        *_grouped(("; ".join(result.notes), result) for result in results if result.status == "open"),
        "",
        "## Failing in Spark itself",
        *(
            f"- {result.case.name}: `{result.case.sql}`: {result.detail}"
            for result in results
            if result.status == "undecided"
        ),
        "",
        "## Invalid in Spark",
        *_grouped((result.detail[:60], result) for result in results if result.status == "invalid"),
    ]
    return "\n".join(lines) + "\n"


def uncalled(results: Iterable[Result]) -> list[str]:
    """The functions that Spark has and none of the cases for them calls in a way that Spark takes."""
    valid: dict[str, bool] = {}
    for result in results:
        if result.case.function:
            valid[result.case.function] = valid.get(result.case.function, False) or result.status != "invalid"
    return [name for name, called in valid.items() if not called]


def as_json(results: Sequence[Result]) -> str:
    return json.dumps([asdict(result) for result in results], indent=1, default=str)


def _table(counted: dict[str, dict[str, int]]) -> list[str]:
    columns = list(next(iter(counted.values())))
    return [
        f"| | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
        *(f"| {name} | {' | '.join(str(found[column]) for column in columns)} |" for name, found in counted.items()),
    ]


def _failure(result: Result) -> str:
    return f"- **{result.case.name}** ({result.step})\n  `{result.case.sql}`\n  {result.detail[:700]}"


def _grouped(found: Iterable[tuple[str, Result]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for key, result in found:
        groups.setdefault(key, []).append(result.case.name)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [f"- {len(names)} x {key}: {', '.join(names)}" for key, names in ordered]
