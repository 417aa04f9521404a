"""An endpoint: what it takes, what it answers, who may call it, and what it does, declared in one place.

The router, the checks and the OpenAPI document are all made from the declarations, so that they cannot disagree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headwater.errors import HeadwaterError, InternalError, Refused
from headwater.model import strict_json
from headwater.server import bodies, gate
from headwater.server.answers import EventStream, failure
from headwater.server.budget import Hold
from headwater.server.failures import bad_request, no_token, too_many
from headwater.server.parameters import Parameter, header_values, values
from headwater.server.service import Service
from headwater.server.shapes import Shape
from headwater.server.tokens import Scope, Token, allows

COOKIE = "headwater_token"
Method = Literal["GET", "POST", "DELETE"]
_log = logging.getLogger("headwater.server")


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of answer, by its media types."""

    about: str
    shapes: Mapping[str, Shape] = field(default_factory=dict)


def json_answer(about: str, shape: Shape) -> Answer:
    return Answer(about, {bodies.JSON: shape})


@dataclass(slots=True)
class Call:
    """One request to an endpoint, with its parameters checked."""

    service: Service
    request: Request
    values: dict[str, Any]
    token: Token | None

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def wants_events(self) -> bool:
        """Whether the client asks for a stream."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    @asynccontextmanager
    async def body(self, limit: int) -> AsyncIterator[bytes]:
        """The body, unpacked, of this many bytes at most, which counts as in memory until the end of the block.

        Raises `Refused`.
        """
        encoding = bodies.check_encoding(self.request.headers.get("content-encoding", "identity").strip().lower())
        with self.service.bodies.hold() as hold:
            sent = await self._sent(limit, hold)
            if encoding == "identity":
                yield sent
                return
            unpacked = await self.service.threads.run(bodies.unpacked, sent, encoding, limit)
            _take(hold, len(unpacked))
            yield unpacked

    async def _sent(self, limit: int, hold: Hold) -> bytes:
        """The body as it is sent. It has no claim on anything but its own bytes until all of it is there."""
        announced = self.request.headers.get("content-length")
        try:
            async with asyncio.timeout(self.service.limits.body_seconds_max) as timer:
                with hold.waiting(timer):
                    return await bodies.read(self.request.stream(), announced, limit, lambda size: _take(hold, size))
        except TimeoutError as error:
            slow = Refused(408, "too_slow", "The body did not arrive in time.")
            refused = too_many("bodies in memory") if hold.gave_way else slow
            # The rest of the body may never come, and no other request can come before it.
            refused.headers["Connection"] = "close"
            raise refused from error

    async def text_member(self, name: str, hint: str) -> str:
        """The one member of the body, which is a JSON object, and its value a text. Raises `Refused`."""
        try:
            async with self.body(self.service.limits.request_bytes_max) as body:
                asked = strict_json.loads(body)
            text = asked.get(name) if isinstance(asked, dict) and asked.keys() == {name} else None
            if isinstance(text, str):
                text.encode()  # JSON can write half of a character, which is not text
                return text
        except strict_json.DuplicateKey as error:
            raise bad_request(f"{error}.", hint) from error
        except (ValueError, RecursionError) as error:
            raise bad_request("The body is not JSON.", hint) from error
        raise bad_request(f"The body is an object with nothing but a text `{name}`.", hint)


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path. `scope` is what a token must allow; None: it needs none."""

    method: Method
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Answer]
    scope: Scope | None = "read"
    parameters: Sequence[Parameter] = ()
    accepts: Mapping[str, Shape] = field(default_factory=dict)
    tag: str = ""
    about: str = ""

    async def serve(self, service: Service, request: Request) -> Response:
        """The answer to a request, whatever happens."""
        began = time.perf_counter()
        try:
            response = await self._serve(service, request)
        except HeadwaterError as error:
            if isinstance(error, InternalError):
                _log.exception("%s %s failed", self.method, self.path)
            response = failure(error)
        except ClientDisconnect:
            response = failure(bad_request("The client went away."))
        except Exception:  # noqa: BLE001 - a bug must not show its inside to a client
            _log.exception("%s %s failed", self.method, self.path)
            response = failure(InternalError("unexpected"))
        counters = service.counters
        counters.add("headwater_http_requests_total", method=self.method, path=self.path, status=response.status_code)
        counters.took(time.perf_counter() - began, method=self.method, path=self.path)
        return response

    async def _serve(self, service: Service, request: Request) -> Response:
        token = authorize(service, request, self.scope)
        found = values(self.parameters, request.query_params.multi_items())
        found |= header_values(self.parameters, request.headers)
        for parameter in self.parameters:
            if parameter.where == "path":
                found[parameter.name] = parameter.value(request.path_params[parameter.name])
        call = Call(service, request, found, token)
        if self.accepts and call.content_type not in self.accepts:
            raise Refused(
                415,
                "unsupported_media_type",
                f"The body is of type {call.content_type[:60]!r}." if call.content_type else "The body has no type.",
                hint=f"Content-Type is one of {', '.join(self.accepts)}.",
            )
        response = await self.handler(call)
        if isinstance(response, EventStream) and token is not None:
            # A stream may last for days, and its token may be revoked meanwhile.
            response.check = lambda: _check_known(service, token)
        return response


def _take(hold: Hold, size: int) -> None:
    if not hold.take(size):
        raise too_many("bodies in memory")


def _check_known(service: Service, token: Token) -> None:
    if token.hash not in service.tokens.known():
        raise no_token("The token has been revoked.")


def authorize(service: Service, request: Request, scope: Scope | None) -> Token | None:
    """Who sends a request, if that is known. Raises `Refused` if it may not."""
    if scope is None:
        return None
    if not service.needs_tokens:
        return None
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    by_cookie = not text and COOKIE in request.cookies
    if by_cookie:
        if request.method not in gate.SAFE_METHODS and not gate.proves_origin(request.headers):
            raise Refused(403, "foreign_origin", "A browser must say where the request comes from.")
        text = request.cookies[COOKIE]
    elif kind.lower() != "bearer":
        text = ""
    token = service.tokens.find(text.strip()) if text else None
    if token is None:
        raise no_token("The token is not known." if text else "This needs a token.")
    if not allows(token.scope, scope):
        raise Refused(403, "wrong_scope", f"This needs a token with the scope {scope}, and this one has {token.scope}.")
    return token
