"""The OpenAPI document, made from the endpoints themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from headwater.server.answers import POSITION_HEADER
from headwater.server.endpoint import Answer, Endpoint
from headwater.server.shapes import ERROR

_CONVERTER = re.compile(r"{(\w+):\w+}")
ABOUT = """\
Events into the topics of an application, and its views out.

Every write answers with a position. Every read takes it as `at_least`, waits until what it reads has come as far, and
says which position it shows, in its body and in the header `Headwater-Position`. Every error has the same body.
"""


def document(endpoints: Sequence[Endpoint], title: str = "headwater") -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(public_path(endpoint), {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("headwater"), "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def public_path(endpoint: Endpoint) -> str:
    """The path as clients write it."""
    return _CONVERTER.sub(r"{\1}", endpoint.path)


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    error = {"description": "What is wrong.", "content": {"application/json": {"schema": _ERROR}}}
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{re.sub(r'[^a-z]+', '_', public_path(endpoint).lower()).strip('_')}",
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "parameters": [one.to_openapi() for one in endpoint.parameters],
        "responses": {
            **{str(status): _response(endpoint, one) for status, one in endpoint.answers.items()},
            "4XX": error,
            "5XX": error,
        },
    }
    if endpoint.about:
        operation["description"] = endpoint.about
    if endpoint.scope is not None:
        operation["security"] = [{"token": []}, {}]
        operation["x-scope"] = endpoint.scope
    if endpoint.accepts:
        content = {kind: {"schema": shape} for kind, shape in endpoint.accepts.items()}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _response(endpoint: Endpoint, one: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {"description": one.about}
    if one.shapes:
        found["content"] = {kind: {"schema": shape} for kind, shape in one.shapes.items()}
    shown = [shape for shape in one.shapes.values() if "position" in shape.get("required", ())]
    if shown and any(parameter.name == "at_least" for parameter in endpoint.parameters):
        found["headers"] = {
            POSITION_HEADER: {"schema": {"type": "string"}, "description": "The position that it shows."}
        }
    return found


_ERROR = {"$ref": "#/components/schemas/Error"}
