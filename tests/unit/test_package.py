"""The package itself: what completion offers, and which version it is."""

from __future__ import annotations

from importlib.metadata import version

import headwater


def test_completion_offers_the_public_names_and_no_others() -> None:
    assert dir(headwater) == sorted(headwater.__all__)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(headwater, name) for name in headwater.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert headwater.__version__ == version("headwater")
