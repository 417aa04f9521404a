"""What the demo's server answers besides the API: how the shop is, ways to break it, and the page for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from importlib.resources import files

from starlette.responses import Response

from headwater.demo.incidents import ACTIONS, Incidents
from headwater.server import bodies, sse
from headwater.server.answers import HEARTBEAT_SECONDS, EventStream, answer
from headwater.server.console_files import POLICY
from headwater.server.endpoint import Answer, Call, Endpoint, Handler, json_answer
from headwater.server.parameters import Parameter
from headwater.server.service import Page
from headwater.server.shapes import INSTANT, NUMBER, POSITION, TEXT, WHOLE, by_name, many, maybe, thing

TAG = "Demo"
PAGE = Page("break-it", "Break it", "demo/page.js")
# By path; everything that the page asks for is relative to where the console is.
FILES = {
    "/demo/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/demo/page.css": ("page.css", "text/css; charset=utf-8"),
}
ACTION = Parameter(
    "action",
    {"type": "string", "minLength": 1, "maxLength": 60},
    f"One of {', '.join(action.name for action in ACTIONS)}.",
    "path",
)
INCIDENT = thing(
    number=WHOLE, action=TEXT, title=TEXT, began_at=INSTANT, state=TEXT, position=maybe(POSITION),
    recovered_seconds=maybe(NUMBER), verified_seconds=maybe(NUMBER), steps=many(thing(at=INSTANT, text=TEXT)),
    verified=by_name(TEXT),
)  # fmt: skip
DEMO = thing(
    actions=many(thing(name=TEXT, title=TEXT, about=TEXT)),
    processes=many(thing(name=TEXT, state=TEXT, pid=maybe(WHOLE), starts=WHOLE, seconds=maybe(NUMBER))),
    incidents=many(INCIDENT),
)


@cache
def _content(name: str) -> bytes:
    return (files("headwater.demo") / name).read_bytes()


def endpoints(incidents: Incidents) -> tuple[Endpoint, ...]:
    """The endpoints over one list of incidents."""

    async def status(call: Call) -> Response:
        if not call.wants_events:
            return answer(await call.service.threads.run(incidents.to_json))
        limits = call.service.limits
        on_end = call.service.open_stream()
        return EventStream(_events(call, incidents), stall_seconds=limits.stream_stall_seconds_max, on_end=on_end)

    async def act(call: Call) -> Response:
        return answer(incidents.begin(call["action"]).to_json(), status=202)

    return (
        Endpoint(
            "GET", "/demo", status, "What runs, what was broken, and what became of it; or as it changes, as events",
            {200: Answer("The newest incident first; or events `demo`.", {bodies.JSON: DEMO, sse.CONTENT_TYPE: TEXT})},
            tag=TAG,
        ),
        Endpoint(
            "POST", "/demo/{action}", act, "Break something",
            {202: json_answer("It is being done; GET /demo tells what becomes of it.", INCIDENT)}, "admin", (ACTION,),
            tag=TAG,
        ),
        *(
            Endpoint("GET", path, _serves(name, kind), f"A file of the page: {name}",
                     {200: Answer("The file.", {kind.partition(";")[0]: TEXT})}, None, tag=TAG)
            for path, (name, kind) in FILES.items()
        ),
    )  # fmt: skip


def _serves(name: str, media_type: str) -> Handler:
    """A file. It holds nothing of the shop, so it needs no token: what the page shows it asks for."""

    async def serve(_: Call) -> Response:
        headers = {"Cache-Control": "no-cache", "Content-Security-Policy": POLICY, "Content-Type": media_type}
        return Response(_content(name), 200, headers)

    return serve


async def _events(call: Call, incidents: Incidents) -> AsyncIterator[bytes]:
    """An event at once, and then every second."""
    service = call.service
    while not service.closing:
        yield sse.event(await service.threads.run(incidents.to_json), name="demo")
        await service.history.next(HEARTBEAT_SECONDS)
