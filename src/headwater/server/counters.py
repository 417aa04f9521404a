"""What the server counts, and Prometheus' text format for it."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge", "histogram"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the classes of durations, in seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure. `suffix` is what its name has more than that of its family."""

    labels: Labels
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name."""

    name: str
    kind: Kind
    about: str
    samples: Sequence[Sample] = field(default_factory=tuple)


def labels(**given: object) -> Labels:
    return tuple((name, str(value)) for name, value in given.items())


def gauge(name: str, about: str, samples: Iterable[tuple[Mapping[str, object], float]]) -> Family:
    return Family(name, "gauge", about, [Sample(labels(**given), value) for given, value in samples])


def counter(name: str, about: str, samples: Iterable[tuple[Mapping[str, object], float]]) -> Family:
    return Family(name, "counter", about, [Sample(labels(**given), value) for given, value in samples])


def render(families: Iterable[Family]) -> str:
    """The text that Prometheus reads."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.about)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in family.samples:
            inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in sample.labels)
            lines.append(f"{family.name}{sample.suffix}{{{inside}}} {_number(sample.value)}")
    return "\n".join(lines) + "\n"


class Counters:
    """Numbers that only grow, and durations by class, from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = defaultdict(float)
        self._durations: dict[Labels, list[float]] = {}

    def add(self, name: str, amount: float = 1, **given: object) -> None:
        with self._turn:
            self._counts[name, labels(**given)] += amount

    def get(self, name: str, **given: object) -> float:
        with self._turn:
            return self._counts.get((name, labels(**given)), 0)

    def took(self, seconds: float, **given: object) -> None:
        """Notes how long a request took."""
        with self._turn:
            held = self._durations.setdefault(labels(**given), [0.0] * (len(BUCKETS) + 2))
            for place, end in enumerate(BUCKETS):
                held[place] += seconds <= end
            held[-2] += 1
            held[-1] += seconds

    def family(self, name: str, about: str) -> Family:
        with self._turn:
            samples = [Sample(given, value) for (held, given), value in self._counts.items() if held == name]
        return Family(name, "counter", about, samples)

    def durations(self, name: str, about: str) -> Family:
        samples: list[Sample] = []
        with self._turn:
            for given, held in self._durations.items():
                for place, end in enumerate(BUCKETS):
                    samples.append(Sample((*given, ("le", f"{end:g}")), held[place], "_bucket"))
                samples.append(Sample((*given, ("le", "+Inf")), held[-2], "_bucket"))
                samples += [Sample(given, held[-1], "_sum"), Sample(given, held[-2], "_count")]
        return Family(name, "histogram", about, samples)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
