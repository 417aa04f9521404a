"""How a webhook is signed by the convention of Standard Webhooks, for senders and receivers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

_PREFIX = "whsec_"


def signature(secret: str, identity: str, seconds: str, body: bytes) -> str:
    """The signature of `id.timestamp.body`, in base64. A secret that begins with `whsec_` is base64 itself."""
    signed = f"{identity}.{seconds}.".encode() + body
    return base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def headers(secrets: Sequence[str], identity: str, body: bytes, at: datetime) -> dict[str, str]:
    """What a sender adds: one signature for each secret, so that the receiver's can be changed in between."""
    seconds = str(int(at.timestamp()))
    signed = " ".join(f"v1,{signature(secret, identity, seconds, body)}" for secret in secrets)
    return {"webhook-id": identity, "webhook-timestamp": seconds, "webhook-signature": signed}


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        return secret.encode()
