"""The reference of the API is what the endpoints themselves say."""

from __future__ import annotations

from headwater.server.application import ENDPOINTS
from headwater.server.openapi import public_path
from tools.api_reference import PAGE, reference


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python tools/api_reference.py"


def test_every_endpoint_is_in_it() -> None:
    page = reference()
    for endpoint in ENDPOINTS:
        assert f"\n#### {endpoint.method} {public_path(endpoint)}\n" in page
