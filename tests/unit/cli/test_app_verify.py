"""What `headwater verify` says of views that are not what their SQL gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.app import App
from headwater.engine.comparison import Difference
from headwater.engine.publication import Base
from headwater.engine.reading import Snapshot
from headwater.errors import HistoryGone, ViewChanged
from headwater.model.position import Position
from headwater.spark.verification import Verification
from tests.unit.cli.app_sample import publish, write_application
from tests.unit.cli.conftest import Run


class Runtime:
    """Finds these differences in every view."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self._differences = differences

    def verify(self, view: str, snapshot: Snapshot, *_: object) -> Verification:
        return Verification(view, snapshot.position, 2, self._differences)


class Remembering(Runtime):
    """Views remember records that are gone, and there may be a base to replay them from."""

    def __init__(self, base: Base | None) -> None:
        super().__init__([])
        self._base = base

    def verify(self, view: str, snapshot: Snapshot, *_: object) -> Verification:
        if self._base is None:
            raise HistoryGone(view, ["topic 'orders', partition 0: offsets 0 to 2"])
        return Verification(view, snapshot.position, 2, [], since=self._base.offsets, base=self._base)


class Changed(Runtime):
    """No view is defined as it is published."""

    def __init__(self) -> None:
        super().__init__([])

    def verify(self, view: str, *_: object) -> Verification:
        raise ViewChanged(view)


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
    assert (ran.code, ran.err) == (0, "1 view verified: it is correct (doubles to within 1e-09 of their size).\n")
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


def test_what_a_base_proves_is_said(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Base(1, 1, Position.parse("5"), {"orders": {0: 3}}, 1_700_000_000_000_000)
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: Remembering(base))
    ran = headwater("verify", app)
    assert ran.code == 0
    assert ran.out.splitlines()[1:] == [
        "revenue         7     2  right since position 5",
        "revenue: replayed from the base of 2023-11-14T22:13:20Z, at position 5; what came before cannot be recomputed",
        "revenue: topic orders is proved from offset 3 in partition 0",
    ]
    (one,) = headwater("verify", app, "--json").objects()
    assert one["base"] == {"position": "5", "taken_at": "2023-11-14T22:13:20Z"}
    assert one["since"] == {"orders": {"0": 3}}


def test_without_a_base_there_is_no_verdict(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: Remembering(None))
    ran = headwater("verify", app)
    assert ran.code == 1
    assert "View 'revenue' can be neither proved nor disproved" in ran.err


def test_a_view_that_has_changed_is_not_compared(headwater: Run, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "plan", lambda _app, _step=None: Changed())
    ran = headwater("verify", app, "revenue")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "error: The definition of view 'revenue' has changed since it was built.",
    )
    assert headwater("verify", app).code == 1
