"""The commands of the program by name, each imported when it is first asked for.

A command imports what it needs: `headwater log` knows neither applications nor the server, which take longer to import
than most of its commands take.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group

from headwater.cli.families import Family

MODULES = {
    "run": "app_run",
    "serve": "app_serve",
    "token": "app_serve",
    "query": "app_query",
    "explain": "app_explain",
    "time": "app_time",
    "alerts": "app_alerts",
    "verify": "app_care",
    "state": "app_care",
    "demo": "demo",
    "log": "log",
    "capture": "capture",
    "sink": "sinks",
    "views": "app_views",
}
"""The module of each command and family, in the order in which help lists them. Its `register` adds them."""


def load_commands(module: str) -> dict[str, Any]:
    """The commands and families that a module of this package registers."""
    family = typer.Typer(cls=Family)
    import_module(f"headwater.cli.{module}").register(family)
    return dict(get_group(family).commands)


class Commands(MutableMapping[str, Any]):
    """All commands by their names. Names are known at once; to look at a command imports its module."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded.update(load_commands(MODULES[name]))
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)
