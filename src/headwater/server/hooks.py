"""Webhooks in: checked by their signature, and appended once each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.responses import Response

from headwater.errors import Refused
from headwater.model.position import Position
from headwater.model.receivers import WebhookIn
from headwater.model.strict_json import DuplicateKey, duplicate_key
from headwater.server import bodies, signatures
from headwater.server.answers import answer
from headwater.server.endpoint import Call, Endpoint, json_answer
from headwater.server.failures import bad_request
from headwater.server.parameters import path
from headwater.server.records import APPENDED, append_once
from headwater.server.service import Service
from headwater.server.shapes import TEXT, many, thing

TAG = "Hooks"


async def receive(call: Call) -> Response:
    service = call.service
    hook = service.app.webhooks_in.get(call["name"])
    if hook is None:
        raise Refused(404, "unknown_hook", f"There is no hook {call['name'][:100]!r}.")
    async with call.body(service.limits.body_bytes_max) as body:
        with service.append_slot():
            done = await service.threads.append(_append, service, hook, call.request.headers, body)
    return answer(done, Position.parse(str(done["position"])))


def _append(service: Service, hook: WebhookIn, headers: Mapping[str, str], body: bytes) -> dict[str, object]:
    delivery = signatures.check(hook, headers, body, datetime.now(UTC))
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise bad_request("The body is not text.") from error
    key = duplicate_key(body)
    if key is not None:
        raise bad_request(f"{DuplicateKey(key)}.", "Programs differ in which of the values they take.")
    row = {"id": delivery.id, "event": delivery.event, "body": text, "sent_at": delivery.sent_at}
    # A sender that got no answer sends again, under the same id.
    return append_once(service, hook.topic, [row], f"hook {delivery.id}", body, records=1)


async def list_hooks(call: Call) -> Response:
    hooks = call.service.app.webhooks_in.values()
    return answer({"hooks": [{"name": one.name, "topic": one.topic, "style": one.style} for one in hooks]})


ENDPOINTS = (
    Endpoint(
        "POST", "/hooks/{name}", receive, "Take a webhook; its signature takes the place of a token",
        {200: json_answer("It is durable at this position.", APPENDED)}, None, (path("name", "The hook's name."),),
        {bodies.JSON: {}}, tag=TAG,
        about="Signed as Standard Webhooks, GitHub or Stripe do, as webhook_in(…) says. A webhook that is redelivered "
        "under the same id is recognized.",
    ),
    Endpoint(
        "GET", "/hooks", list_hooks, "The webhooks that are taken",
        {200: json_answer("Without their secrets.", thing(hooks=many(thing(name=TEXT, topic=TEXT, style=TEXT))))},
        tag=TAG,
    ),
)  # fmt: skip
