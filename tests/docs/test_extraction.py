"""The examples of a page are found, run and compared; a wrong one fails."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.examples import BadPage, Command, Example, ExampleFailed, commands, examples, matches, run

PAGE = """\
# Title

```python
x = 1
```

```json
{"not": "run"}
```

1. In a list:

   ```console
   $ echo a
   a
   ```

<!-- not run: needs a network -->
```sh
false
```

````text
```python
raise AssertionError("only shown")
```
````
"""


def console(text: str) -> Example:
    return Example("page.md", 1, "console", text)


def test_the_blocks_of_a_page_are_found_in_order() -> None:
    assert list(examples("page.md", PAGE)) == [
        Example("page.md", 3, "python", "x = 1\n"),
        Example("page.md", 13, "console", "$ echo a\na\n"),
        Example("page.md", 19, "sh", "false\n", not_run="needs a network"),
    ]


@pytest.mark.parametrize(
    ("markdown", "complaint"),
    [
        ("```python\nx = 1\n", "never closed"),
        ("```py\nx = 1\n```\n", "write python instead of py"),
        ("```bash\nls\n```\n", "write sh instead of bash"),
        ("<!-- not run: -->\n```sh\nls\n```\n", "say why"),
    ],
)
def test_a_page_that_would_hide_an_example_is_refused(markdown: str, complaint: str) -> None:
    with pytest.raises(BadPage, match=complaint):
        list(examples("page.md", markdown))


def test_a_comment_further_up_leaves_nothing_out() -> None:
    (example,) = examples("page.md", "<!-- not run: reason -->\n\n```sh\nls\n```\n")
    assert example.not_run is None


def test_a_console_block_is_commands_with_their_output() -> None:
    assert commands(console("$ a \\\n>   --long\none\n\ntwo\n\n$ b\n$ c\n")) == [
        Command("a \\\n  --long", ("one", "", "two")),
        Command("b", ()),
        Command("c", ()),
    ]


def test_a_console_block_without_a_prompt_is_refused() -> None:
    with pytest.raises(BadPage, match="starts with a command"):
        commands(console("ls\n"))


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        (("one",), "one\n", True),
        (("one",), "one\ntwo\n", False),
        (("one",), "", False),
        (("took ... ms",), "took 12 ms\n", True),
        (("took … ms",), "took 12\n3 ms\n", False),
        (("first", "…", "last"), "first\na\nb\nlast\n", True),
        (("first", "...", "last"), "first\nlast\n", True),
        (("first", "...", "last"), "first\na\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_output_is_compared_with_what_the_page_shows(expected: tuple[str, ...], output: str, same: bool) -> None:
    assert matches(expected, output) is same


def test_python_blocks_share_a_namespace_and_name_the_line_of_the_page(tmp_path: Path) -> None:
    namespace = ModuleType("example")
    run(Example("page.md", 3, "python", "x = 1\n"), namespace, tmp_path)
    with pytest.raises(ZeroDivisionError) as caught:
        run(Example("page.md", 7, "python", "y = x\ny / 0\n"), namespace, tmp_path)
    assert caught.traceback[-1].lineno == 8  # counted from 0


def test_shell_blocks_run_in_the_directory_with_the_tools_of_this_environment(tmp_path: Path) -> None:
    run(Example("page.md", 1, "sh", "echo hello > greeting\n"), ModuleType("example"), tmp_path)
    run(console("$ cat greeting; command -v python\nhello\n…/bin/python\n"), ModuleType("example"), tmp_path)


@pytest.mark.parametrize(
    ("example", "complaint"),
    [
        (Example("page.md", 4, "sh", "false\ntrue\n"), "page.md:4: exit code 1"),
        (console("$ echo a\nb\n"), "the page shows:\nb\nit printed:\na"),
        (console("$ exit 3\n"), "exit code 3"),
    ],
)
def test_a_wrong_example_fails(example: Example, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ExampleFailed, match=complaint):
        run(example, ModuleType("example"), tmp_path)
