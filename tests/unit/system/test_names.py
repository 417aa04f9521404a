"""Names: nothing in one can leave its folder, confuse a shell or grow out of a file system."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidName
from headwater.system.names import NAME_LENGTH_MAX, check_name

LETTERS = "abcXYZ019"


@given(st.text(LETTERS + "._-", min_size=1, max_size=NAME_LENGTH_MAX).filter(lambda name: name[0] in LETTERS))
def test_a_good_name_is_given_back(name: str) -> None:
    assert check_name("topic", name) == name


@given(st.text(max_size=NAME_LENGTH_MAX + 20))
def test_an_accepted_name_is_one_plain_file_name(name: str) -> None:
    try:
        check_name("topic", name)
    except InvalidName:
        return
    assert name.isascii()
    assert name not in (".", "..")
    assert Path(name).name == name
    assert (Path("folder") / name).parent == Path("folder")
    assert not set(name) & set("/\\ \t\n\0'\"`$&|;<>*?~!#(){}[]")
    assert not name.startswith(("-", "."))
    assert len(name) <= NAME_LENGTH_MAX


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "/x",
        "-rf",
        ".x",
        "_x",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "a:b",
        "x" * 201,
        "\uff41",
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_name("topic", name)
    assert (caught.value.kind, caught.value.name) == ("topic", name)
    assert caught.value.reason in str(caught.value)
    assert caught.value.hint


def test_a_name_may_be_as_long_as_said() -> None:
    assert check_name("group", "x" * NAME_LENGTH_MAX) == "x" * NAME_LENGTH_MAX
