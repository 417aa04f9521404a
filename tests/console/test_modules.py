"""The console's own modules, run in the browser: the renderer, layouts, formats and streams."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.console.stage import empty_stage


@pytest.fixture
def modules(page: Page, tmp_path: Path) -> Iterator[Page]:
    with empty_stage(tmp_path) as server:
        page.goto(server.url)
        yield page


def run(page: Page, module: str, body: str, argument: Any = None) -> Any:
    """What a function of a module gives; it is called `m` in the body, and the argument `given`."""
    code = f"async (given) => {{ const m = await import('/console/{module}'); {body} }}"
    return page.evaluate(code, argument)


def test_a_list_becomes_what_is_described_and_keeps_its_elements(modules: Page) -> None:
    generator = random.Random(3)
    lists = [generator.sample(range(12), generator.randint(0, 12)) for _ in range(60)]
    found = run(
        modules,
        "dom.js",
        """
        const parent = document.createElement("ul");
        let before = new Map();
        return given.map((keys) => {
          m.render(parent, keys.map((key) => m.h("li", { key, class: `c${key}` }, "row ", key)));
          const now = new Map([...parent.childNodes].map((node) => [node.className, node]));
          const kept = [...now].every(([name, node]) => !before.has(name) || before.get(name) === node);
          before = now;
          return { kept, texts: [...parent.childNodes].map((node) => node.textContent) };
        });
        """,
        lists,
    )
    assert [one["texts"] for one in found] == [[f"row {key}" for key in keys] for keys in lists]
    assert all(one["kept"] for one in found)


def test_properties_come_and_go(modules: Page) -> None:
    found = run(
        modules,
        "dom.js",
        """
        const parent = document.createElement("div");
        const show = (properties, ...children) => {
          m.render(parent, [m.h("button", properties, ...children)]);
          return parent.innerHTML;
        };
        const clicked = [];
        show({ class: "a", disabled: true, onclick: () => clicked.push(1), style: { "--x": "1" } }, "one", null, false);
        const first = parent.firstChild;
        const html = show({ title: "t", onclick: () => clicked.push(2) }, ["two", [" three"]]);
        first.click();
        show({}, "four");
        first.click();
        return { html, clicked, same: first === parent.firstChild, text: parent.textContent };
        """,
    )
    assert found == {
        "html": '<button style="" title="t">two three</button>',
        "clicked": [2],
        "same": True,
        "text": "four",
    }


def test_markup_is_text(modules: Page) -> None:
    body = """
        const parent = document.createElement("div");
        m.render(parent, [m.h("p", { title: "<b>" }, "<img src=x onerror=alert(1)>")]);
        return [parent.querySelectorAll("img").length, parent.textContent];
    """
    assert run(modules, "dom.js", body) == [0, "<img src=x onerror=alert(1)>"]


@pytest.mark.parametrize("seed", range(6))
def test_a_layout_overlaps_nowhere_and_leads_to_the_right(modules: Page, seed: int) -> None:
    generator = random.Random(seed)
    nodes: list[dict[str, Any]] = [
        {"id": str(n), "column": generator.randint(0, 4), "width": generator.randint(80, 280), "height": 47}
        for n in range(25)
    ]
    pairs = [(one, other) for one in nodes for other in nodes if one["column"] < other["column"]]
    edges = [{"from": one["id"], "to": other["id"]} for one, other in generator.sample(pairs, 30)]
    edges.append({"from": "0", "to": "not there"})
    found = run(modules, "layers.js", "return m.layout(given.nodes, given.edges);", {"nodes": nodes, "edges": edges})
    placed = found["nodes"]
    for number, one in enumerate(placed):
        assert 0 <= one["x"] <= found["width"] - one["width"] + 0.01
        assert -0.01 <= one["y"] <= found["height"] - one["height"] + 0.01
        for other in placed[number + 1 :]:
            if one["column"] < other["column"]:
                assert one["x"] + one["width"] < other["x"]
            elif one["column"] == other["column"]:
                assert abs(one["y"] - other["y"]) >= one["height"]
    assert len(found["edges"]) == 30
    for edge in found["edges"]:
        xs = [point["x"] for point in edge["points"]]
        assert xs == sorted(xs)


def test_a_label_widens_only_the_gap_that_it_stands_in(modules: Page) -> None:
    nodes = [{"id": str(n), "column": n, "width": 100, "height": 47} for n in range(3)]
    edges = [{"from": "0", "to": "1"}, {"from": "1", "to": "2", "room": 200}]
    body = "return m.layout(given.nodes, given.edges, { columnGap: 50 });"
    found = run(modules, "layers.js", body, {"nodes": nodes, "edges": edges})
    assert [node["x"] for node in found["nodes"]] == [0, 150, 450]
    assert found["width"] == 550


def test_labels_of_edges_give_way_to_each_other(modules: Page) -> None:
    # Edges between all nodes of two columns cross in one place.
    nodes = [
        {"id": f"{side}{number}", "column": column, "width": 100, "height": 47}
        for column, side in enumerate("ab")
        for number in range(4)
    ]
    pairs = [(0, 3), (3, 0), (1, 2), (2, 1)]
    edges = [{"from": f"a{one}", "to": f"b{other}"} for one, other in pairs]
    body = """
      const { edges } = m.layout(given.nodes, given.edges, { columnGap: 180 });
      return [edges.map((edge) => edge.points), m.labelPlaces(edges, 60, 20)];
    """
    points, places = run(modules, "layers.js", body, {"nodes": nodes, "edges": edges})
    for number, one in enumerate(places):
        (left, right) = points[number]
        assert left["x"] <= one["x"] - 30 <= one["x"] + 30 <= right["x"]
        assert min(left["y"], right["y"]) <= one["y"] <= max(left["y"], right["y"])
        for other in places[number + 1 :]:
            assert abs(one["x"] - other["x"]) >= 60 or abs(one["y"] - other["y"]) >= 20


FORMATS = (
    ("count(1234567)", "1,234,567"), ("count(null)", "–"), ("short(12345)", "12.3K"), ("short(999)", "999"),  # noqa: RUF001
    ("rate(0)", "0/s"), ("rate(0.05)", "<0.1/s"), ("rate(3.21)", "3.2/s"), ("rate(12345)", "12.3K/s"),
    ("bytes(0)", "0 B"), ("bytes(1500)", "1.5 kB"), ("bytes(123456789)", "123 MB"),
    ("duration(0)", "0 ms"), ("duration(0.9996)", "1.0 s"), ("duration(1.44)", "1.4 s"), ("duration(61)", "61 s"),
    ("duration(300)", "5 min"), ("duration(7200)", "2 h"), ("duration(604800)", "7 days"),
    ("ago('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:00:05Z'))", "5 s ago"),
    ("ago('2026-01-01T00:00:09Z', Date.parse('2026-01-01T00:00:05Z'))", "now"),
    ("counted(1, 'row')", "1 row"), ("counted(2, 'row')", "2 rows"),
    ("cell({a: 1})", '{"a":1}'), ("cell(null)", "null"),
)  # fmt: skip


def test_formats(modules: Page) -> None:
    for call, text in FORMATS:
        assert run(modules, "format.js", f"return m.{call};") == text, call


def test_large_whole_numbers_keep_all_their_digits(modules: Page) -> None:
    text = '{"id": 9007199254740993, "small": 5, "part": 0.12345678901234567, "text": "9007199254740993"}'
    found = run(modules, "api.js", "return m.parse(given);", text)
    assert found == {
        "id": "9007199254740993", "small": 5, "part": 0.12345678901234567, "text": "9007199254740993",
    }  # fmt: skip


def test_a_query_string_leaves_out_what_is_not_there(modules: Page) -> None:
    body = "return m.query({ a: 1, b: null, c: '', d: ['x y', 'z&'] });"
    assert run(modules, "api.js", body) == "?a=1&d=x+y&d=z%26"
    assert run(modules, "api.js", "return m.path('topics', 'a/b', 'c');") == "topics/a%2Fb/c"


def test_events_are_parsed(modules: Page) -> None:
    body = "return given.map(m.parsed);"
    given = ['id: 2.1\nevent: change\ndata: {"a": 1}', ": still here", "retry: 1000"]
    empty = {"name": "message", "id": "", "data": ""}
    assert run(modules, "stream.js", body, given) == [{"name": "change", "id": "2.1", "data": '{"a": 1}'}, empty, empty]


def test_the_columns_of_a_schema(modules: Page) -> None:
    text = "id bigint, amount decimal(12,2), tags map<string,array<int>>"
    found = run(modules, "pages/topic.js", "return m.columnsOf(given);", text)
    assert found == ["id bigint", "amount decimal(12,2)", "tags map<string,array<int>>"]


def test_a_chart_ends_at_a_round_number(modules: Page) -> None:
    body = "return [0, 0.3, 1, 7, 12, 99, 501].map(m.ceiling);"
    assert run(modules, "charts.js", body) == pytest.approx([1, 0.5, 1, 10, 20, 100, 1000])
