"""Every example in README.md and docs/ runs, but for those that say why not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.examples import examples, run
from tests.docs.servers import environment_of
from tools.cli_reference import APPLICATION

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


def test_only_these_examples_are_not_run() -> None:
    left_out = [
        (name(page), example.not_run)
        for page in PAGES
        for example in examples(name(page), page.read_text())
        if example.not_run is not None
    ]
    needs_database = "it needs a database of yours; tests/postgres has one"
    own = [("README.md", "these two are the project's own set-up"), ("README.md", needs_database)]
    needs_events = "it needs events of yours; tests/unit/cli/test_debezium.py has some"
    capture = [("docs/guides/capture.md", why) for why in (needs_database, needs_database, needs_events)]
    applications = [("docs/reference/cli.md", APPLICATION)] * 16
    standby = [
        ("docs/guides/views.md", "another process would have to run it"),
        ("docs/guides/views.md", "it takes over only when the other run ends"),
    ]
    log = [("docs/guides/log.md", "the log of this page is open")]
    archives = [("docs/guides/archive.md", "it needs a bucket of yours; tests/archives has one")]
    assert left_out == [*own, *archives, *capture, *log, *standby, *applications]
