"""Signatures of webhooks: whether who sent one knows the secret, by three conventions.

standard  `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,BASE64 ...` over `id.timestamp.body`
github    `x-hub-signature-256: sha256=HEX` over the body; `x-github-delivery` is the id
stripe    `stripe-signature: t=SECONDS,v1=HEX,...` over `timestamp.body`; the id is in the body
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.errors import Refused
from headwater.model import signing
from headwater.model.receivers import WebhookIn

TOLERANCE = timedelta(minutes=5)
"""A signature that is older, or so far in the future, is refused: somebody may have recorded it."""
ID_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook that is what it says: its sender's id for it, what kind of event it is, and when it was signed."""

    id: str
    event: str | None
    sent_at: datetime | None


def check(hook: WebhookIn, headers: Mapping[str, str], body: bytes, now: datetime) -> Delivery:
    """The delivery, if its signature is right. Raises `Refused`. Names of headers are in lower case."""
    found = _CHECKS[hook.style](hook, headers, body, now)
    if not found.id or len(found.id) > ID_LENGTH_MAX:
        raise _refused("The webhook has no id.")
    return found


def sign(hook: WebhookIn, identity: str, body: bytes, at: datetime) -> dict[str, str]:
    """The headers that a sender adds, for tests and for senders without a library."""
    secret, seconds = hook.secrets[0], int(at.timestamp())
    if hook.style == "github":
        return {"x-hub-signature-256": f"sha256={_hmac(secret.encode(), body).hex()}", "x-github-delivery": identity}
    if hook.style == "stripe":
        return {"stripe-signature": f"t={seconds},v1={_hmac(secret.encode(), b'%d.%b' % (seconds, body)).hex()}"}
    return signing.headers([secret], identity, body, at)


def _standard(hook: WebhookIn, headers: Mapping[str, str], body: bytes, now: datetime) -> Delivery:
    identity = _header(headers, "webhook-id")
    sent_at = _instant(_header(headers, "webhook-timestamp"), now)
    given = [part[3:] for part in _header(headers, "webhook-signature").split(" ") if part.startswith("v1,")]
    seconds = headers["webhook-timestamp"]
    expected = (signing.signature(secret, identity, seconds, body) for secret in hook.secrets)
    _check_any(given, expected)
    return Delivery(identity, _text(_object(body).get("type")), sent_at)


def _github(hook: WebhookIn, headers: Mapping[str, str], body: bytes, _now: datetime) -> Delivery:
    kind, _, digest = _header(headers, "x-hub-signature-256").partition("=")
    expected = (_hmac(secret.encode(), body).hex() for secret in hook.secrets)
    _check_any([digest] if kind == "sha256" else [], expected)
    return Delivery(_header(headers, "x-github-delivery"), headers.get("x-github-event"), None)


def _stripe(hook: WebhookIn, headers: Mapping[str, str], body: bytes, now: datetime) -> Delivery:
    parts = [part.partition("=")[::2] for part in _header(headers, "stripe-signature").split(",")]
    seconds = next((value for name, value in parts if name.strip() == "t"), "")
    sent_at = _instant(seconds, now)
    expected = (_hmac(secret.encode(), f"{seconds}.".encode() + body).hex() for secret in hook.secrets)
    _check_any([value for name, value in parts if name.strip() == "v1"], expected)
    content = _object(body)
    return Delivery(_text(content.get("id")) or "", _text(content.get("type")), sent_at)


_CHECKS = {"standard": _standard, "github": _github, "stripe": _stripe}


def _check_any(given: Iterable[str], expected: Iterator[str]) -> None:
    offered = [signature.encode() for signature in given]
    # Every pair is compared, so that the time it takes tells nothing.
    fits = [hmac.compare_digest(one, other.encode()) for other in expected for one in offered]
    if not any(fits):
        raise _refused("The signature does not fit the body.")


def _hmac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()


def _header(headers: Mapping[str, str], name: str) -> str:
    if not headers.get(name):
        raise _refused(f"The header {name} is missing.")
    return headers[name]


def _instant(seconds: str, now: datetime) -> datetime:
    if not seconds.isascii() or not seconds.isdigit() or len(seconds) > 11:
        raise _refused("The signature has no time.")
    at = datetime.fromtimestamp(int(seconds), UTC)
    if abs(now - at) > TOLERANCE:
        raise _refused("The signature is too old, or the clocks differ.")
    return at


def _object(body: bytes) -> dict[str, object]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _refused(message: str) -> Refused:
    return Refused(401, "bad_signature", message, hint="Check that both sides have the same secret.")
