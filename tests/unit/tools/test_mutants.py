"""Mutants of the source: each still fits it, and what a run of the fuzzer means is told right."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tools.mutants import UNCHANGED, Result, chosen, show
from tools.mutations import MUTANTS, Edit, Mutant, NotApplicable

PACKAGE = Path(__file__).parents[3] / "src" / "headwater"
ADD_UP = Mutant(18, "sums are wrong", [Edit("sums.py", "one + other", "one - other")])


def copied(mutant: Mutant, folder: Path) -> Path:
    """A package with the files that a mutant changes."""
    for name in {edit.file for edit in mutant.edits}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, folder / name)
    return folder


def test_there_is_one_for_each_bug() -> None:
    assert [mutant.number for mutant in MUTANTS] == list(range(1, 18))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.number)
def test_each_fits_the_source(mutant: Mutant, tmp_path: Path) -> None:
    package = copied(mutant, tmp_path)
    mutant.apply(package)
    for edit in mutant.edits:
        text = (package / edit.file).read_text()
        ast.parse(text)
        assert text != (PACKAGE / edit.file).read_text()


@pytest.mark.parametrize("text", ["one - other", "one + other, one + other"])
def test_one_that_does_not_fit_is_told_and_changes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(text)
    with pytest.raises(NotApplicable, match=r"mutant 18: sums.py has \d times: one \+ other"):
        ADD_UP.apply(tmp_path)
    assert (tmp_path / "sums.py").read_text() == text


def test_they_are_chosen_by_number() -> None:
    assert chosen(None) == list(MUTANTS)
    assert chosen([0, 3]) == [UNCHANGED, MUTANTS[2]]


def test_a_mutant_is_to_be_found_and_the_source_is_not() -> None:
    assert Result(ADD_UP, 1.0, 1.0, seed=7).right
    assert not Result(ADD_UP, 1.0, 1.0).right
    assert Result(UNCHANGED, 1.0, 1.0).right
    assert not Result(UNCHANGED, 1.0, 1.0, seed=7).right


def test_the_table_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    show([Result(ADD_UP, 61.4, 20.2, 2, 7, "SELECT a || b", "2 rows differ"), Result(ADD_UP, 600, 300)], markdown=True)
    rows = capsys.readouterr().out.splitlines()
    assert rows[2:] == [
        r"| 18 | sums are wrong | seed 7 | SELECT a \|\| b | 2 rows differ | 2 | 61 | 20 |",
        "| 18 | sums are wrong | nothing |  |  | 0 | 600 | 300 |",
    ]
