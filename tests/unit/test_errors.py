"""The tree of errors, which has every one of them, and errors that show where something is wrong."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater import errors
from headwater.errors import HeadwaterError, InvalidQuery

# Exceptions that a caller never sees: where they are raised and caught, and why they are no errors.
SIGNALS = {
    "headwater.connectors.lake.table.Moved": "another writer was first: the target looks again",
    "headwater.connectors.postgres.tables.TablesMoved": "capture starts over with what is known now",
    "headwater.connectors.webhooks.addresses.NotPublic": "becomes the reason of a failed delivery",
    "headwater.demo.supervisor.Ended": "ends the demo at a signal",
    "headwater.engine.sinks.feed._Paused": "ends a feed until somebody resumes it",
    "headwater.engine.sinks.feed._Stopped": "ends a feed",
    "headwater.engine.sinks.port.CannotContinue": "a feed begins again",
    "headwater.engine.sinks.port.PositionChanged": "a feed asks the target where it is",
    "headwater.model.coercion.Rejection": "becomes a rejected record",
    "headwater.model.strict_json.DuplicateKey": "becomes a rejected record",
    "headwater.server.hub._Ended": "ends a subscriber's stream",
    "headwater.server.queries.forking.WorkerGone": "the query is run by another worker",
    "headwater.testing.clients.Abort": "a client of the harness gives up a commit",
    "headwater.testing.expectation.Violated": "what the harness reports",
    "headwater.testing.storage.PowerCut": "ends the process of a simulated machine",
}


def below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def drawn() -> dict[str, str]:
    """Each class of the drawing with the one that it hangs from."""
    parents: dict[str, str] = {}
    above = ["HeadwaterError"]
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ((?:\|  |   )*)[|`]- (\w+)", line):
            depth = len(found[1]) // 3 + 1
            parents[found[2]] = above[depth - 1]
            above[depth:] = [found[2]]
    return parents


def test_every_error_is_in_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo's application opens a log where it is imported.
    monkeypatch.chdir(tmp_path)
    for module in pkgutil.walk_packages(headwater.__path__, "headwater."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = [each for each in below(BaseException) if each.__module__.startswith("headwater.")]
    ours = [each for each in found if issubclass(each, HeadwaterError)]
    assert {each.__name__ for each in ours if not each.__module__.startswith("headwater.errors.")} == set()
    assert {each.__name__ for each in ours} - set(errors.__all__) == set()
    signals = {f"{each.__module__}.{each.__name__}" for each in found if not issubclass(each, HeadwaterError)}
    assert signals == set(SIGNALS)


def test_the_drawing_is_the_tree() -> None:
    classes = {name: getattr(errors, name) for name in errors.__all__}
    tree = {name: each.__bases__[0].__name__ for name, each in classes.items() if issubclass(each, HeadwaterError)}
    del tree["HeadwaterError"]
    assert drawn() == tree


def test_no_two_errors_have_one_code() -> None:
    codes = [vars(each).get("code") for each in (HeadwaterError, *below(HeadwaterError))]
    assert sorted(filter(None, codes)) == sorted(set(filter(None, codes)))


@pytest.mark.parametrize(
    ("sql", "line", "column", "excerpt"),
    [
        ("SELECT nope", 1, 8, "SELECT nope\n       ^"),
        ("SELECT\n\tnope", 2, 2, " nope\n ^"),
        ("SELECT", 7, 1, ""),
        (f"SELECT {'a, ' * 50}nope", 1, 158, f"…{'a, ' * 32}nope\n{' ' * 97}^"),
        (f"nope {'a' * 200}", 1, 1, f"nope {'a' * 95}…\n^"),
    ],
)
def test_the_place_of_a_mistake_is_shown(sql: str, line: int, column: int, excerpt: str) -> None:
    error = InvalidQuery("revenue", "No such column.", line=line, column=column, sql=sql)
    assert error.message == f"Invalid SQL in view 'revenue', line {line}, column {column}: No such column."
    assert error.excerpt == excerpt
    assert (excerpt in getattr(error, "__notes__", [])) is bool(excerpt)


def test_a_mistake_without_a_place() -> None:
    error = InvalidQuery(None, "It is empty.")
    assert (error.message, error.excerpt) == ("Invalid query: It is empty.", "")
