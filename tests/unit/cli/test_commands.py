"""Each command is imported when it is asked for, from the module that has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headwater.cli.commands import MODULES, Commands, load_commands

HEAVY = ("headwater.app", "headwater.server", "headwater.connectors", "headwater.engine", "pyspark")
"""What commands of a log do not need, and loading takes longer than they do."""


@pytest.mark.parametrize("module", sorted(set(MODULES.values())))
def test_a_module_registers_the_commands_that_are_expected_of_it(module: str) -> None:
    assert list(load_commands(module)) == [name for name, place in MODULES.items() if place == module]


def test_names_are_known_before_anything_is_loaded() -> None:
    commands = Commands()
    assert list(commands) == list(MODULES)
    assert len(commands) == len(MODULES)
    assert commands._loaded == {}
    assert commands.get("nope") is None
    assert commands["state"].name == "state"
    assert set(commands._loaded) == {"verify", "state"}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("--version",), HEAVY),
        (("log", "topics", "nowhere"), HEAVY),
        (("query", "nowhere.py", "SELECT 1"), ("headwater.server", "pyspark", "duckdb")),
        (("capture", "status", "nowhere.py"), ("headwater.server", "pyspark", "duckdb")),
    ],
    ids=["version", "log", "query", "capture"],
)
def test_a_command_loads_only_what_it_needs(arguments: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    program = (
        f"import sys\nfrom headwater.cli import main\nsys.argv[1:] = {list(arguments)!r}\n"
        f"try:\n    main()\nexcept SystemExit:\n    print(*sorted(set(sys.modules) & set({heavy!r})))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == ""
