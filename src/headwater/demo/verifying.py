"""Verifies a view in the pipeline's process, whose Spark is warm, by asking the server that runs there."""

from __future__ import annotations

import time
from urllib.parse import quote

from headwater.demo.sending import Client
from headwater.errors import Determinate, Refused

POLL_SECONDS = 0.2
PIPELINE_SECONDS_MAX = 120.0
"""How long a pipeline that was killed may take to be there again."""


class PipelineVerifier:
    """What the demo's server does when it is asked to verify a view: a `headwater.server.verifications.Verify`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, view: str) -> dict[str, object]:
        """What was found. Raises `Refused` if the pipeline cannot tell."""
        deadline = time.monotonic() + PIPELINE_SECONDS_MAX
        path = f"/views/{quote(view, safe='')}/verify"
        client = Client(self._url)
        asked = False
        try:
            while True:
                try:
                    state = client.get(path) if asked else client.post(path)
                except Determinate as error:
                    # It was killed: its successor is asked again.
                    asked = False
                    if time.monotonic() > deadline:
                        raise Refused(503, "no_pipeline", "The pipeline does not answer.") from error
                else:
                    if asked and state["status"] in ("done", "failed"):
                        return _found(state)
                    asked = True
                time.sleep(POLL_SECONDS)
        finally:
            client.close()


def _found(state: dict[str, object]) -> dict[str, object]:
    if state["status"] == "failed":
        error = state.get("error")
        about = error if isinstance(error, dict) else {}
        raise Refused(500, str(about.get("code", "verification_failed")), str(about.get("message", "It broke off.")))
    result = state["result"]
    assert isinstance(result, dict)
    return {name: value for name, value in result.items() if name != "verified_at"}
