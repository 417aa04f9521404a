"""What the demo's server answers besides the API: a search for orders, ways to break the shop, and their pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from importlib.resources import files

from starlette.responses import Response

from headwater.demo.incidents import ACTIONS, Incidents
from headwater.demo.reports import Reports
from headwater.server import bodies, sse
from headwater.server.answers import HEARTBEAT_SECONDS, EventStream, answer
from headwater.server.console_files import POLICY
from headwater.server.endpoint import Answer, Call, Endpoint, Handler, json_answer
from headwater.server.parameters import Parameter
from headwater.server.service import Page
from headwater.server.shapes import INSTANT, NUMBER, POSITION, TEXT, WHOLE, YES_NO, by_name, many, maybe, thing

TAG = "Demo"
PAGES = (Page("search", "Search", "demo/search.js"), Page("break-it", "Break it", "demo/break_it.js"))
# By path; everything that the pages ask for is relative to where the console is.
FILES = {
    "/demo/search.js": ("search.js", "text/javascript; charset=utf-8"),
    "/demo/break_it.js": ("break_it.js", "text/javascript; charset=utf-8"),
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
    recovered_seconds=maybe(NUMBER), verified_seconds=maybe(NUMBER), audited_seconds=maybe(NUMBER),
    steps=many(thing(at=INSTANT, text=TEXT)), verified=by_name(TEXT), audited=by_name(TEXT),
)  # fmt: skip
DEMO = thing(
    actions=many(thing(name=TEXT, title=TEXT, about=TEXT, on_target=YES_NO)),
    processes=many(thing(name=TEXT, state=TEXT, pid=maybe(WHOLE), starts=WHOLE, seconds=maybe(NUMBER))),
    incidents=many(INCIDENT),
)
WORDS = Parameter(
    "words", {"type": "string", "maxLength": 200}, "Words that an order has; the newest orders otherwise."
)
_MONEY = {"type": "string", "description": "A decimal."}
FOUND = thing(
    matching=WHOLE, rows=WHOLE, paid=_MONEY, revenue=_MONEY,
    orders=many(thing(
        id=WHOLE, customer=maybe(TEXT), country=maybe(TEXT), status=maybe(TEXT), total=maybe(_MONEY),
        placed_at=maybe(INSTANT), products=maybe(TEXT),
    )),
    countries=many(thing(country=TEXT, orders=maybe(WHOLE), revenue=maybe(_MONEY))),
)  # fmt: skip


@cache
def _content(name: str) -> bytes:
    return (files("headwater.demo") / name).read_bytes()


def endpoints(incidents: Incidents, reports: Reports) -> tuple[Endpoint, ...]:
    """The endpoints over one list of incidents and one report database."""

    async def status(call: Call) -> Response:
        if not call.wants_events:
            return answer(await call.service.threads.run(incidents.to_json))
        limits = call.service.limits
        on_end = call.service.open_stream()
        return EventStream(_events(call, incidents), stall_seconds=limits.stream_stall_seconds_max, on_end=on_end)

    async def act(call: Call) -> Response:
        return answer(incidents.begin(call["action"]).to_json(), status=202)

    async def search(call: Call) -> Response:
        return answer(await call.service.threads.run(reports.read, call["words"] or ""))

    return (
        Endpoint(
            "GET", "/demo/search", search, "Search the orders in the report database by PostgreSQL's full text search",
            {200: json_answer("The newest matching orders, and the revenue by country, as of one moment.", FOUND)},
            parameters=(WORDS,), tag=TAG,
        ),
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
            Endpoint("GET", path, _serves(name, kind), f"A file of the pages: {name}",
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
