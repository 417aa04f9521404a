"""What `headwater verify` says of views that are not what their SQL gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.app import App
from headwater.engine.comparison import Difference
from headwater.model.position import Position
from headwater.spark.verification import Verification
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run


class Runtime:
    """Finds these differences in every view."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self._differences = differences

    def defines(self, definition: object) -> bool:
        return True

    def verify(
        self, view: str, content: object, position: Position, excluded: object, remembered: object
    ) -> Verification:
        return Verification(view, position, 2, self._differences)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = write_application(tmp_path)
    publish(tmp_path)
    return file


def differing(monkeypatch: pytest.MonkeyPatch, *differences: Difference) -> None:
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: Runtime(differences))


def test_a_view_that_is_right(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    differing(monkeypatch)
    ran = headwater("verify", app)
    assert (ran.code, ran.err) == (0, "1 view verified: it is right (doubles to within 1e-09 of their size).\n")
    assert ran.out.splitlines()[1].split() == ["revenue", "7", "2", "right"]


def test_rows_that_differ_are_shown(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    differing(monkeypatch, Difference({"country": "DE"}, 2), Difference({"country": "FR"}, -1))
    ran = headwater("verify", app, "revenue")
    assert (ran.code, ran.err) == (1, "error: Not what the SQL gives: revenue.\n")
    assert ran.out.splitlines()[1:] == [
        "revenue         7     2  2 rows differ",
        "revenue: should not be there (2 times): country=DE",
        "revenue: is missing: country=FR",
    ]


def test_ten_differences_are_enough(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    differing(monkeypatch, *(Difference({"country": str(number)}, 1) for number in range(13)))
    assert headwater("verify", app).out.splitlines()[-1] == "revenue: and 3 more"
    (one,) = headwater("verify", app, "--json").objects()
    assert (one["equal"], one["differences"], len(one["examples"])) == (False, 13, 10)
    assert one["examples"][0] == {"surplus": 1, "row": {"country": "0"}}
