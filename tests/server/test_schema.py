"""The server does what its OpenAPI document says, whatever it is sent: schemathesis finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case

from headwater.server.application import ENDPOINTS
from headwater.server.openapi import document
from tests.server.shop import Shop, opened

SCHEMA = schemathesis.openapi.from_dict(document(ENDPOINTS))
STREAMS = "/views/{view}/changes"
EXAMPLES = 25


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory: Path = tmp_path_factory.mktemp("shop")
    with opened(directory, verify=lambda _: {"equal": True}, limits={"wait_seconds_max": 1}) as shop:
        shop.append({"user": 1, "url": "a"})
        shop.append({"id": 1, "country": "DE", "amount": "1.50"}, topic="orders")
        yield shop


@SCHEMA.exclude(path=STREAMS).parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.timeout(600)
def test_every_endpoint_keeps_its_promises(served: Shop, case: Case) -> None:
    # A name that is there leads further than one that is not.
    case.path_parameters = {
        **(case.path_parameters or {}),
        **{
            name: value
            for name, value in {"topic": "clicks", "view": "v"}.items()
            if name in (case.path_parameters or {})
        },
    }
    case.call_and_validate(base_url=served.server.url, timeout=30)


@SCHEMA.exclude(path=STREAMS).parametrize()
@settings(max_examples=10, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@pytest.mark.timeout(600)
def test_also_for_names_that_are_not_there(served: Shop, case: Case) -> None:
    case.call_and_validate(base_url=served.server.url, timeout=30)


def test_what_is_served_is_the_document(served: Shop) -> None:
    found = served.client.get("/openapi.json").json()
    assert found["paths"].keys() == document(ENDPOINTS)["paths"].keys()
    assert found["info"]["title"] == "shop"
