"""Every example in README.md and docs/ runs, but for those that say why not."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.examples import examples, run
from tests.docs.servers import environment_of
from tools.cli_reference import APPLICATION, FOLLOWER, GROUP

ROOT = Path(__file__).parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", namespace)
    monkeypatch.chdir(tmp_path)
    with environment_of(name(page)) as environment:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        for example in examples(name(page), page.read_text()):
            if example.not_run is None:
                run(example, namespace, tmp_path)


_NEEDS_DATABASE = "it needs a database of yours; tests/postgres has one"
NOT_RUN = {
    "README.md": ["these two are the project's own set-up", _NEEDS_DATABASE],
    "docs/guides/archive.md": ["it needs a bucket of yours; tests/archives has one"],
    "docs/guides/capture.md": [
        _NEEDS_DATABASE,
        _NEEDS_DATABASE,
        "it needs events of yours; tests/unit/cli/test_debezium.py has some",
    ],
    "docs/guides/kafka.md": ["it needs a Kafka of yours; tests/kafka has one"] * 3,
    "docs/guides/log.md": ["the log of this page is open"],
    "docs/guides/production.md": [
        "it needs a database and a bucket of yours; tests/e2e has both",
        "it needs a cluster of yours; tests/kafka/test_cluster.py has one",
    ],
    "docs/guides/sink-operations.md": ["it needs systems of yours; tests/contract/sinks has them"] * 8,
    "docs/guides/views.md": ["another process would have to run it", "it takes over only when the other run ends"],
}
"""The examples of each page that are not run, with the reasons that the page gives."""


def test_only_these_examples_are_not_run() -> None:
    left_out = {
        name(page): [example.not_run for example in examples(name(page), page.read_text()) if example.not_run]
        for page in PAGES
    }
    assert set(left_out.pop("docs/reference/cli.md")) == {APPLICATION, FOLLOWER, GROUP}
    assert {page: reasons for page, reasons in left_out.items() if reasons} == NOT_RUN


@pytest.mark.parametrize("reason", sorted({APPLICATION, FOLLOWER, GROUP, *chain(*NOT_RUN.values())}))
def test_what_runs_an_example_instead_exists(reason: str) -> None:
    _, there, test = reason.partition("; ")
    assert not there or (ROOT / test.split()[0]).exists()
