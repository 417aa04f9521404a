"""The server as an ASGI application: the endpoints of all chapters, behind the gate, with one form of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headwater.errors import InternalError, Refused
from headwater.server import (
    alerts,
    candidates,
    dead_letters,
    flow,
    followers,
    groups,
    health,
    hooks,
    openapi,
    pipelines,
    records,
    sinks,
    topics,
    views,
)
from headwater.server.answers import answer, failure
from headwater.server.console_files import serve_file
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.gate import Gate
from headwater.server.pacing import Pace
from headwater.server.service import Service


async def _document(call: Call) -> Response:
    return answer(openapi.document(call.request.app.state.endpoints, call.service.app.name))


ENDPOINTS: tuple[Endpoint, ...] = (
    *topics.ENDPOINTS,
    *records.ENDPOINTS,
    *groups.ENDPOINTS,
    *followers.ENDPOINTS,
    *alerts.ENDPOINTS,
    *hooks.ENDPOINTS,
    *views.ENDPOINTS,
    *pipelines.ENDPOINTS,
    *sinks.ENDPOINTS,
    *candidates.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *flow.ENDPOINTS,
    *health.ENDPOINTS,
    Endpoint(
        "GET", "/openapi.json", _document, "This document", {200: json_answer("OpenAPI 3.1.", {"type": "object"})},
        None, tag=health.TAG,
    ),
)  # fmt: skip
"""Everything that the server answers."""


def build(service: Service, more: Sequence[Endpoint] = ()) -> ASGIApp:
    """The application of a service that is started, or will be before the first request, with `more` endpoints."""
    endpoints = (*ENDPOINTS, *more)
    app = Starlette(routes=routes(service, endpoints), exception_handlers={HTTPException: _refuse, Exception: _break})
    app.state.endpoints = endpoints
    app.router.redirect_slashes = False
    return Gate(Pace(app, service), needs_tokens=lambda: service.needs_tokens)


def routes(service: Service, endpoints: Sequence[Endpoint] = ENDPOINTS) -> list[Route]:
    """One route for each path, and the console's files; those that take any path behind them come last."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    ordered = sorted(by_path.items(), key=lambda pair: ":path}" in pair[0])
    console = Route("/console/{file:path}", serve_file, methods=["GET"])
    return [*(_route(service, path, of_path) for path, of_path in ordered), console]


def _route(service: Service, path: str, endpoints: Sequence[Endpoint]) -> Route:
    by_method: Mapping[str, Endpoint] = {endpoint.method: endpoint for endpoint in endpoints}

    async def serve(request: Request) -> Response:
        return await by_method[request.method].serve(service, request)

    handler: Callable[[Request], Awaitable[Response]] = serve
    route = Route(path, handler, methods=list(by_method))
    if route.methods is not None:
        route.methods.discard("HEAD")
    return route


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
    hint = "GET /openapi.json lists what there is."
    return failure(Refused(error.status_code, code, f"{error.detail}.", hint=hint, headers=error.headers))


async def _break(_: Request, _error: Exception) -> Response:
    return failure(InternalError("unexpected"))
