"""Figures in the form that Prometheus reads."""

from __future__ import annotations

from headwater.server.counters import Counters, counter, gauge, render


def test_figures_are_text() -> None:
    text = render(
        [
            gauge("a", "Some\nthing.", [({"x": 'q"\\'}, 1.5), ({}, 2)]),
            counter("b", "Other.", [({"y": 1}, float("inf"))]),
        ]
    )
    assert text.splitlines() == [
        "# HELP a Some\\nthing.",
        "# TYPE a gauge",
        'a{x="q\\"\\\\"} 1.5',
        "a{} 2",
        "# HELP b Other.",
        "# TYPE b counter",
        'b{y="1"} +Inf',
    ]


def test_requests_are_counted_by_duration() -> None:
    counters = Counters()
    for seconds in (0.002, 0.2, 30.0):
        counters.took(seconds, path="/x")
    counters.add("n", 2, a="b")
    counters.add("n", a="b")
    assert counters.get("n", a="b") == 3
    lines = render([counters.durations("d", "D."), counters.family("n", "N.")]).splitlines()
    assert 'd_bucket{path="/x",le="0.0025"} 1' in lines
    assert 'd_bucket{path="/x",le="0.25"} 2' in lines
    assert 'd_bucket{path="/x",le="+Inf"} 3' in lines
    assert 'd_count{path="/x"} 3' in lines
    assert 'n{a="b"} 3' in lines
