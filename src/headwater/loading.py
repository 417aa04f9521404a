"""Loads the application that a Python file defines, as `python FILE` would run the file."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

from headwater.app import App
from headwater.errors import HeadwaterError, UsageError
from headwater.log.opening import Opening, opened_as

PANEL = "Applications"
"""Where help lists the commands that take an application."""
MODULE = "__headwater__"
"""What the file's `__name__` is: neither that of a module that others could import, nor `__main__`."""

Missing = Literal["create", "refuse", "stand_in"]
"""What happens if an application's log is missing: only a command that writes creates it."""


def load(place: str, missing: Missing = "refuse", *, log: Path | None = None) -> App:
    """The application of a file, with the views of the `*.sql` files beside it. Raises `UsageError`.

    A relative path of a log is relative to the file. Unless the log is to be created, nothing is written to it: topics
    that it lacks are not created either. A log that stands in for one that is missing is gone when the program ends.
    With `log` the file gets the log in that directory, whichever it asks for.
    """
    path, name = _split(place)
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", hint="Name the Python file that defines the application.")
    with opened_as(replace(_opening(path, missing), instead=log)):
        app = _chosen(_run(path), path, name)
        app.sql_files(path.parent)
    return app


def check_topics(app: App) -> None:
    """Raises `UsageError` if a topic that the application declares is not in its log yet."""
    if app.missing_topics:
        raise UsageError(
            f"Not in the log yet: topic {', '.join(repr(name) for name in app.missing_topics)}.",
            hint="`headwater run` creates what the application declares.",
        )


def _opening(path: Path, missing: Missing) -> Opening:
    base = path.parent.resolve()
    if missing != "stand_in":
        return Opening(base, creates=missing == "create")
    directory = tempfile.mkdtemp(prefix="headwater-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Opening(base, creates=False, stand_in=Path(directory))


def _split(place: str) -> tuple[Path, str | None]:
    file, separator, name = place.rpartition(":")
    if separator and name.isidentifier() and not Path(place).exists():
        return Path(file), name
    return Path(place), None


def _run(path: Path) -> dict[str, object]:
    """The names that the file defines."""
    directory = str(path.parent.resolve())
    sys.path.insert(0, directory)
    # Spark's workers find the modules beside the file as well.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH")]))
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own program
    except HeadwaterError:
        raise
    except SyntaxError as error:
        raise UsageError(f"{error.filename}, line {error.lineno}: {error.msg}.") from error
    except Exception as error:
        where = _line_of(path, error)
        raise UsageError(f"{path}{where}: {type(error).__name__}: {error}") from error
    finally:
        # Spark then sends functions of the file to its workers as they are, which could not import the file.
        del sys.modules[MODULE]
    return module.__dict__


def _line_of(path: Path, error: Exception) -> str:
    """The last line of the file that the error came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _chosen(names: dict[str, object], path: Path, name: str | None) -> App:
    apps = {key: value for key, value in names.items() if isinstance(value, App)}
    if name is not None:
        if name not in apps:
            raise UsageError(f"{path} defines no application {name!r}.", hint=f"It defines {_listed(apps)}.")
        return apps[name]
    distinct = {id(app): app for app in apps.values()}
    if not distinct:
        raise UsageError(f"{path} defines no application.", hint='Define one: app = hw.App("shop", log="./data").')
    if len(distinct) > 1:
        raise UsageError(
            f"{path} defines several applications: {_listed(apps)}.", hint=f"Name one: {path}:{next(iter(apps))}."
        )
    return next(iter(distinct.values()))


def _listed(apps: dict[str, App]) -> str:
    return ", ".join(apps) or "none"
