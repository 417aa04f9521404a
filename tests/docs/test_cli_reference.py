"""The reference of the command line is what the commands themselves say."""

from __future__ import annotations

from tools.cli_reference import PAGE, reference


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python tools/cli_reference.py"


def test_every_command_and_exit_code_is_in_it() -> None:
    page = reference()
    assert page.count("\n### headwater log ") == 18
    assert page.count("\n### headwater ") == page.count("\n```sh\n") == 34
    assert "| 3 | A group's lag is past a limit. |" in page
