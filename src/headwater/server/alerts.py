"""Alerts: what fires, what has happened lately, and how the receivers are."""

from __future__ import annotations

from starlette.responses import Response

from headwater.engine.alerts.listing import RECENT_DEFAULT
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.parameters import Parameter
from headwater.server.shapes import INSTANT, NUMBER, POSITION, ROW, TEXT, WHOLE, many, maybe, thing

TAG = "Alerts"
RECENT_MAX = 10_000
RECEIVER = thing(
    kind=TEXT, address=TEXT, status={"type": "string", "enum": ["running", "retrying", "paused"]}, messages=WHOLE,
    waiting=WHOLE, failures=WHOLE, error=maybe(TEXT), failed_at=maybe(INSTANT), sent_at=maybe(INSTANT),
)  # fmt: skip
ALERT = thing(
    name=TEXT, view=TEXT, key=many(TEXT), after_seconds=NUMBER, repeat_seconds=maybe(NUMBER),
    digest_seconds=maybe(NUMBER), quiet=maybe(TEXT), firing=WHOLE, receivers=many(RECEIVER),
)  # fmt: skip
_ABOUT = {"id": TEXT, "alert": TEXT, "view": TEXT, "key": TEXT, "since": INSTANT, "position": POSITION, "row": ROW}
FIRING = thing(**_ABOUT, fired_at=INSTANT)
RECORD = thing(**_ABOUT, event={"type": "string", "enum": ["fired", "cleared"]}, at=INSTANT)
LISTING = thing(alerts=many(ALERT), firing=many(FIRING), recent=many(RECORD))
RECENT = Parameter(
    "recent",
    {"type": "integer", "minimum": 0, "maximum": RECENT_MAX, "default": RECENT_DEFAULT},
    "The number of newest records in the history.",
)


async def list_alerts(call: Call) -> Response:
    recent = RECENT_DEFAULT if call["recent"] is None else call["recent"]
    found = await call.service.threads.run(call.service.app.list_alerts, recent)
    return answer(found)


ENDPOINTS = (
    Endpoint(
        "GET", "/alerts", list_alerts, "The alerts: what fires, the newest of their history, and their receivers",
        {200: json_answer("Firing alerts in the order in which they fired; the history, newest first.", LISTING)},
        parameters=(RECENT,), tag=TAG,
    ),
)  # fmt: skip
