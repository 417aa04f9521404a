"""The application of a file is found, and what is wrong with the file is said in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.loading import MODULE, load
from headwater.log.opening import open_log
from tests.unit.cli.conftest import Run

APP = 'import headwater as hw\n{name} = hw.App("{name}", log={log!r})\n'


@pytest.fixture(autouse=True)
def path_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")


def written(directory: Path, *names: str, rest: str = "") -> Path:
    file = directory / "app.py"
    file.write_text("".join(APP.format(name=name, log=str(directory / "data")) for name in names) + rest)
    return file


def test_the_only_application_is_taken(tmp_path: Path) -> None:
    with load(str(written(tmp_path, "shop", rest="again = shop\n")), "create") as app:
        assert app.name == "shop"


def test_one_of_several_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "shop", "bank")
    with load(f"{file}:bank", "create") as app:
        assert app.name == "bank"
    with pytest.raises(UsageError, match=r"defines several applications: shop, bank\.") as several:
        load(str(file), "create")
    assert several.value.hint == f"Name one: {file}:shop."
    with pytest.raises(UsageError, match="defines no application 'other'"):
        load(f"{file}:other", "create")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"app\.py defines no application\."),
        ("x = 1\nif x\n", r"app\.py, line 2: expected ':'\."),
        ("x = 1\nundefined\n", r"app\.py, line 2: NameError: name 'undefined' is not defined"),
        ("import json\njson.loads('[')\n", r"app\.py, line 2: JSONDecodeError: "),
        ("import no_such_module\n", r"app\.py, line 1: ModuleNotFoundError: "),
    ],
)
def test_what_is_wrong_with_the_file_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "app.py").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        load(str(tmp_path / "app.py"), "create")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        load(str(tmp_path / "app.py"), "create")


def test_sql_files_are_views_unless_the_application_defines_them(tmp_path: Path) -> None:
    file = written(tmp_path, "shop", rest='shop.view("mine", "SELECT 1 AS one")\n')
    (tmp_path / "mine.sql").write_text("SELECT 2 AS two")
    (tmp_path / "theirs.sql").write_text("\n  SELECT 3 AS three;\n")
    (tmp_path / "folder.sql").mkdir()
    with load(str(file), "create") as app:
        # The beginning stays, so that an error names the line of the file.
        assert app.views == {"mine": "SELECT 1 AS one", "theirs": "\n  SELECT 3 AS three"}


def test_the_file_is_run_as_a_program_would_be(tmp_path: Path) -> None:
    (tmp_path / "beside_the_application.py").write_text("NAME = 'beside'\n")
    rest = (
        "from beside_the_application import NAME\n"
        "shop.view(NAME, 'SELECT 1 AS one')\n"
        "if __name__ == '__main__':\n    raise SystemExit(3)\n"
    )
    try:
        with load(str(written(tmp_path, "shop", rest=rest)), "create") as app:
            assert list(app.views) == ["beside"]
    finally:
        sys.modules.pop("beside_the_application", None)
    # Functions of the file go to Spark's workers by value only if their module cannot be imported.
    assert MODULE not in sys.modules


RELATIVE = """
import headwater as hw

app = hw.App("shop", log="./data")
app.topic("orders", "id bigint", key="id")
app.statsd()
app.view("v", "SELECT id FROM orders")
"""


def files(directory: Path) -> dict[str, int]:
    """Everything in a directory, with the time of its last change."""
    return {str(path.relative_to(directory)): path.stat().st_mtime_ns for path in directory.rglob("*")}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an application, with another directory as the current one."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "shop" / "app.py").write_text(RELATIVE)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "shop" / "app.py"


def test_a_log_is_where_its_file_says_whatever_the_current_directory_is(elsewhere: Path) -> None:
    with load("../shop/app.py", "create") as app:
        assert app.log.state_directory == elsewhere.parent / "data"
        assert [topic.name for topic in app.log.topics()] == ["metrics", "orders"]
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["query", "{app}", "SELECT 1"], ["state", "{app}"], ["state", "{app}", "--delete", "--yes"],
        ["verify", "{app}"], ["token", "{app}", "--list"], ["token", "{app}", "--revoke", "x"],
        ["capture", "status", "{app}"],
        ["capture", "pause", "{app}"], ["capture", "audit", "{app}"], ["capture", "drop", "{app}", "--yes"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_command_that_reads_creates_no_log(headwater: Run, elsewhere: Path, command: list[str]) -> None:
    before = files(elsewhere.parent.parent)
    ran = headwater(*(part.format(app="../shop/app.py") for part in command))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: There is no log at {elsewhere.parent / 'data'} yet.\n"
        "hint: Start the application with `headwater run`.\n"
    )
    assert files(elsewhere.parent.parent) == before


def test_reading_creates_no_topic_and_does_no_upkeep(headwater: Run, elsewhere: Path) -> None:
    with open_log(elsewhere.parent / "data") as log:
        log.create("orders", "id bigint", key="id")
    before = files(elsewhere.parent)
    with load("../shop/app.py") as app:
        assert [topic.name for topic in app.log.topics()] == ["orders"]
        assert app.missing_topics == ["metrics"]
        assert app.topic("more", "id bigint", key="id").key == ("id",)
    for command, *rest in (("state",), ("query", "SELECT 1"), ("verify",)):
        headwater(command, "../shop/app.py", *rest)
    assert files(elsewhere.parent).keys() - before.keys() <= {"data/catalog.db-wal", "data/catalog.db-shm"}
    ran = headwater("explain", "../shop/app.py")
    assert (ran.code, ran.err) == (
        2,
        "error: Not in the log yet: topic 'metrics'.\nhint: `headwater run` creates what the application declares.\n",
    )


def test_a_log_stands_in_for_one_that_is_missing(elsewhere: Path) -> None:
    before = files(elsewhere.parent)
    with load("../shop/app.py", "stand_in") as app:
        assert app.log.state_directory != elsewhere.parent / "data"
        assert [topic.name for topic in app.log.topics()] == ["metrics", "orders"]
        assert app.missing_topics == []
    assert files(elsewhere.parent) == before
