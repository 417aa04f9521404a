"""What a soak saw as a picture: a panel for each figure, a line for each process or kind of file, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tools.soak_watch import Sample, Series, series_of

COLOURS = ("#222222", "#0b6e99", "#d1495b", "#6a994e", "#c9b458", "#8d6a9f", "#a3a3a3", "#e07a2f", "#4a90d9", "#7f5539")
WIDTH, LEFT, RIGHT = 900, 64, 260
TOP, HEIGHT, GAP = 40, 130, 46
FONT = "font-family='system-ui, sans-serif' font-size='12'"
PANELS = ("memory, PSS", "descriptors", "threads", "files", "bytes on disk", "work")
NEVER = 0.05
"""A line that never reaches this is left out."""


def svg(samples: Sequence[Sample]) -> str:
    """One panel below the other, over minutes. Each line is named with its last value."""
    found = series_of(samples)
    minutes = [sample.seconds / 60 for sample in samples]
    height = TOP + len(PANELS) * (HEIGHT + GAP)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' {FONT}>",
        "<title>Memory, descriptors, threads and files over time</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
    ]
    for number, title in enumerate(PANELS):
        lines = [series for series in found[title] if max(series.values) >= NEVER]
        parts += _panel(title, lines, minutes, TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, lines: Sequence[Series], minutes: Sequence[float], top: float) -> Iterator[str]:
    highest = _round_up(max((max(series.values) for series in lines), default=1.0))
    unit = next((series.unit for series in lines if series.unit), "")
    heading = escape(f"{title}, {unit}" if unit else title)
    yield f"<text x='{LEFT}' y='{top - 12}' font-weight='bold' fill='#222'>{heading}</text>"
    for part in (0.0, 0.5, 1.0):
        y = top + HEIGHT * (1 - part)
        yield f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}' stroke='#dddddd'/>"
        yield f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end' fill='#555'>{highest * part:,.0f}</text>"
    end = max(minutes[-1], 0.1)
    yield f"<text x='{WIDTH - RIGHT}' y='{top + HEIGHT + 14}' text-anchor='end' fill='#555'>{end:,.0f} minutes</text>"
    for place, series in enumerate(sorted(lines, key=lambda one: -one.values[-1])):
        colour = COLOURS[place % len(COLOURS)]
        points = " ".join(
            f"{LEFT + minute / end * (WIDTH - LEFT - RIGHT):.1f},{top + HEIGHT * (1 - value / highest):.1f}"
            for minute, value in zip(minutes, series.values, strict=True)
        )
        yield f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='1.5'/>"
        y = top + 8 + 15 * place
        yield f"<rect x='{WIDTH - RIGHT + 12}' y='{y - 8}' width='10' height='10' fill='{colour}'/>"
        said = f"{escape(series.name)}: {series.values[-1]:,.0f}"
        yield f"<text x='{WIDTH - RIGHT + 27}' y='{y + 1}' fill='#222'>{said}</text>"


def _round_up(value: float) -> float:
    """The next round number."""
    size = 1.0
    while size * 10 < value:
        size *= 10
    return next((size * step for step in (1, 2, 3, 4, 5, 6, 8, 10) if size * step >= value), value)
