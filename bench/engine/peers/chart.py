"""The comparison as a picture: a group of bars per line, their lengths on a logarithmic scale, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from bench.engine.peers.comparison import OURS, Comparison

COLOURS = ("#0b6e99", "#c9b458", "#a3a3a3", "#d1495b", "#6a994e", "#8d6a9f")
WIDTH, LEFT, RIGHT = 900, 300, 120
TOP, BAR, GAP = 64, 15, 14
FONT = "font-family='system-ui, sans-serif' font-size='12'"


def svg(comparison: Comparison) -> str:
    """Longer is faster. What a system cannot do is said where its bar would be."""
    comparison = comparison.of_rates
    systems = comparison.systems
    low, high = _decades(comparison)
    group = BAR * len(systems) + GAP
    height = TOP + group * len(comparison.titles) + 30
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' {FONT}>",
        "<title>Rows a second, by line and system (logarithmic scale)</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
        *_legend(systems),
        *_scale(low, high, height),
    ]
    for number, (line, title) in enumerate(comparison.titles.items()):
        top = TOP + group * number
        middle = top + BAR * len(systems) / 2 + 4
        parts.append(f"<text x='{LEFT - 10}' y='{middle:.0f}' text-anchor='end' fill='#222'>{escape(title)}</text>")
        for place, system in enumerate(systems):
            parts += _bar(comparison, line, system, place, top + BAR * place, low, high)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(comparison: Comparison) -> tuple[int, int]:
    """Powers of ten around all figures."""
    rates = [standing.rate for standing in comparison.standings if standing.rate]
    if not rates:
        return 0, 1
    low = math.floor(math.log10(min(rates)))
    # A bar as short as nothing would look like none: the scale begins below the slowest.
    low -= min(rates) < 2 * 10**low
    return low, max(low + 1, math.ceil(math.log10(max(rates))))


def _x(rate: float, low: int, high: int) -> float:
    return LEFT + (math.log10(rate) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _legend(systems: list[str]) -> Iterator[str]:
    x = 12.0
    for place, system in enumerate(systems):
        weight = "bold" if system == OURS else "normal"
        yield f"<rect x='{x:.0f}' y='12' width='12' height='12' fill='{COLOURS[place % len(COLOURS)]}'/>"
        yield f"<text x='{x + 17:.0f}' y='22' font-weight='{weight}' fill='#222'>{escape(system)}</text>"
        x += 40 + 7 * len(system)


def _scale(low: int, high: int, height: int) -> Iterator[str]:
    for power in range(low, high + 1):
        x = _x(10.0**power, low, high)
        yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP - 8}' y2='{height - 24}' stroke='#dddddd'/>"
        yield f"<text x='{x:.1f}' y='{TOP - 14}' text-anchor='middle' fill='#555'>{10**power:,}</text>"
    yield f"<text x='{LEFT}' y='{height - 8}' fill='#555'>rows a second, logarithmic</text>"


def _bar(comparison: Comparison, line: str, system: str, place: int, y: float, low: int, high: int) -> Iterator[str]:
    standing = comparison.at(line, system)
    if standing is None:
        return
    if standing.rate is None:
        said = "cannot" if standing.error else "wrong result"
        yield f"<text x='{LEFT + 4}' y='{y + 11}' font-size='10' fill='#777'>{escape(system)}: {said}</text>"
        return
    end = _x(standing.rate, low, high)
    colour = COLOURS[place % len(COLOURS)]
    yield f"<rect x='{LEFT}' y='{y + 1}' width='{end - LEFT:.1f}' height='{BAR - 2}' fill='{colour}'/>"
    weight = "bold" if system == OURS else "normal"
    figure = f"font-size='10' font-weight='{weight}' fill='#222'>{standing.rate:,.0f}"
    yield f"<text x='{end + 4:.1f}' y='{y + 11}' {figure}</text>"
