"""Changed views that are built or wait for a decision: how far they are, what they change, and the decision."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from starlette.responses import Response

from headwater.engine.candidates import SAMPLES, Candidate
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.parameters import VIEW, Parameter
from headwater.server.service import Service
from headwater.server.shapes import NUMBER, POSITION, ROW, TEXT, WHOLE, YES_NO, by_name, many, maybe, thing

TAG = "Changed views"
DECISION = timedelta(seconds=20)
"""How long the process that runs the application may take to switch."""
DIFF_SECONDS = timedelta(seconds=10)
"""How long a comparison waits for the candidate to be where the current views have been."""

BUILD = thing(views=many(TEXT), done=WHOLE, total=WHOLE, seconds_left=maybe(NUMBER), error=maybe(TEXT))
CANDIDATE = thing(
    generation=WHOLE, views=many(TEXT), position=POSITION, is_ready=YES_NO, is_former=YES_NO, wish=maybe(TEXT)
)
STANDING = thing(candidate=maybe(CANDIDATE), build=maybe(BUILD))
DIFF = thing(
    view=TEXT, position=POSITION, rows_before=WHOLE, rows_after=WHOLE, removed=WHOLE, added=WHOLE, changed=WHOLE,
    key=many(TEXT), changed_by_column=by_name(WHOLE), columns_added=many(TEXT), columns_removed=many(TEXT),
    samples=thing(removed=many(ROW), added=many(ROW)),
)  # fmt: skip
KEY = Parameter(
    "key",
    {"type": "string", "minLength": 1, "maxLength": 200},
    "A column that matches up rows.",
    repeated=True,
)


async def standing(call: Call) -> Response:
    return answer(await call.service.threads.run(_standing, call.service))


def _standing(service: Service) -> dict[str, object]:
    found = service.app.candidate()
    return {"candidate": None if found is None else found.to_json(), "build": build_of(service)}


def build_of(service: Service) -> object:
    """How far the running pipeline is with changed views, or why it cannot build them; None if it builds none."""
    process = service.processes.pipeline()
    return None if process is None else process.about.get("build")


async def diff(call: Call) -> Response:
    found = await call.service.threads.run(
        call.service.app.diff, call["view"], key=call["key"], samples=SAMPLES, timeout=DIFF_SECONDS
    )
    return answer(found.to_json(), found.position)


async def switch(call: Call) -> Response:
    return await _decided(call, call.service.app.switch)


async def rollback(call: Call) -> Response:
    return await _decided(call, call.service.app.rollback)


async def discard(call: Call) -> Response:
    return await _decided(call, call.service.app.discard)


async def _decided(call: Call, decide: Callable[..., Candidate]) -> Response:
    found = await call.service.threads.append(decide, timeout=DECISION)
    return answer({"decided": found.to_json()})


_DECIDED = {200: json_answer("The candidate that was decided on.", thing(decided=CANDIDATE))}

ENDPOINTS = (
    Endpoint(
        "GET", "/candidate", standing, "The changed views that are built, or wait for a decision",
        {200: json_answer("`is_ready`: it is where the current views are. `is_former`: for a rollback.", STANDING)},
        tag=TAG,
    ),
    Endpoint(
        "GET", "/views/{view}/candidate", diff, "What the candidate changes in a view, at one position",
        {200: json_answer("Rows with the same key count as changed, not as removed and added.", DIFF)},
        parameters=(VIEW, KEY), tag=TAG,
    ),
    Endpoint(
        "POST", "/candidate/switch", switch, "Let readers see the candidate, and keep the former views for a rollback",
        _DECIDED, "admin", tag=TAG,
    ),
    Endpoint(
        "POST", "/candidate/rollback", rollback, "Let readers see the former views again", _DECIDED, "admin", tag=TAG,
    ),
    Endpoint(
        "DELETE", "/candidate", discard, "Give up the candidate, or after a switch the former views", _DECIDED, "admin",
        tag=TAG,
    ),
)  # fmt: skip
