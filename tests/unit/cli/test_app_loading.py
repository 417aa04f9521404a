"""The application of a file is found, and what is wrong with the file is said in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headwater.cli.app_loading import MODULE, load
from headwater.errors import UsageError

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
    with load(str(written(tmp_path, "shop", rest="again = shop\n"))) as app:
        assert app.name == "shop"


def test_one_of_several_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "shop", "bank")
    with load(f"{file}:bank") as app:
        assert app.name == "bank"
    with pytest.raises(UsageError, match=r"defines several applications: shop, bank\.") as several:
        load(str(file))
    assert several.value.hint == f"Name one: {file}:shop."
    with pytest.raises(UsageError, match="defines no application 'other'"):
        load(f"{file}:other")


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
        load(str(tmp_path / "app.py"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        load(str(tmp_path / "app.py"))


def test_sql_files_are_views_unless_the_application_defines_them(tmp_path: Path) -> None:
    file = written(tmp_path, "shop", rest='shop.view("mine", "SELECT 1 AS one")\n')
    (tmp_path / "mine.sql").write_text("SELECT 2 AS two")
    (tmp_path / "theirs.sql").write_text("\n  SELECT 3 AS three;\n")
    (tmp_path / "folder.sql").mkdir()
    with load(str(file)) as app:
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
        with load(str(written(tmp_path, "shop", rest=rest))) as app:
            assert list(app.views) == ["beside"]
    finally:
        sys.modules.pop("beside_the_application", None)
    # Functions of the file go to Spark's workers by value only if their module cannot be imported.
    assert MODULE not in sys.modules
