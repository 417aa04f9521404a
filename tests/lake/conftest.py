"""What the tests of tables share: each test is run for every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake.formats import FORMATS, Format


@pytest.fixture(params=sorted(FORMATS))
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Format:
    return FORMATS[request.param](tmp_path / "lake")
