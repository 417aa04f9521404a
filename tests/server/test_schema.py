"""The server does what its OpenAPI document says, whatever it is sent: schemathesis finds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, SerializationContext
from schemathesis.checks import CheckFunction, positive_data_acceptance

from headwater.server import bodies
from headwater.server.application import ENDPOINTS
from headwater.server.openapi import document
from headwater.server.shapes import POSITION_PATTERN
from tests.server.shop import Shop, opened

SCHEMA = schemathesis.openapi.from_dict(document(ENDPOINTS))
STREAM = "/views/{view}/changes"
EXAMPLES = 25
NAMES = {"topic": "clicks", "view": "v", "name": "github", "group": "g"}
# What is well-formed and still wrong, because of what is in the log: a column that a topic does not have, SQL that
# names no view, a partition that is not there, a webhook without a signature, a group that was deleted.
MEANING_DECIDES = ("records", "/views/{view}", "/query", "/hooks/", "/session", "/dead-letters/", "/groups/")


@schemathesis.serializer(*bodies.JSON_LINES, bodies.ARROW)
def as_bytes(_context: SerializationContext, value: Any) -> bytes:
    """Text as it is; it is hardly ever a record, and never an Arrow stream."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory: Path = tmp_path_factory.mktemp("shop")
    with opened(directory, verify=lambda _: {"equal": True}, limits={"wait_seconds_max": 1}) as shop:
        shop.append({"user": 1, "url": "a"})
        shop.append({"id": 1, "country": "DE", "amount": "1.50"}, topic="orders")
        shop.app.log.consumer("orders", group="g").close()
        yield shop


@SCHEMA.exclude(path=STREAM).parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.timeout(900)
def test_every_endpoint_keeps_its_promises(served: Shop, case: Case[Any]) -> None:
    lead_further(case)
    case.call_and_validate(base_url=served.server.url, timeout=60, excluded_checks=left_out(case))


def lead_further(case: Case[Any]) -> None:
    """Names that are there instead of those that are not, and a position that is reached instead of one that is not."""
    for name in ("at", "at_least"):
        position = (case.query or {}).get(name)
        if isinstance(position, str) and re.fullmatch(POSITION_PATTERN, position):
            case.query[name] = "0"
    if case.meta is not None and case.meta.generation.mode.is_positive:
        case.path_parameters = {name: NAMES.get(name, value) for name, value in (case.path_parameters or {}).items()}


def left_out(case: Case[Any]) -> list[CheckFunction]:
    return [positive_data_acceptance] if any(part in case.path for part in MEANING_DECIDES) else []


def test_what_is_served_is_the_document(served: Shop) -> None:
    found = served.client.get("/openapi.json").json()
    assert found["paths"].keys() == document(ENDPOINTS)["paths"].keys()
    assert found["info"]["title"] == "shop"
