"""The demo's server as a process: it survives what happens to the pipeline, which runs in another one.

`python -m headwater.demo.serving`, with what it needs to know in the environment.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from types import FrameType

from headwater.app import App
from headwater.demo.control import ask
from headwater.demo.endpoints import PAGES, endpoints
from headwater.demo.incidents import Incidents
from headwater.demo.reports import Reports
from headwater.demo.verifying import PipelineVerifier
from headwater.server.running import Address, Server
from headwater.server.service import Service

APPLICATION = Path(__file__).with_name("app.py")


def load() -> App:
    """The shop, as `headwater run` loads it."""
    app = runpy.run_path(str(APPLICATION))["app"]
    assert isinstance(app, App)
    return app


def main() -> None:
    """The process: serves until SIGTERM."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    control = Path(os.environ["SHOP_CONTROL"])
    with load() as app:
        service = Service(app, verify=PipelineVerifier(os.environ["SHOP_PIPELINE"]), pages=PAGES)
        reports = Reports(os.environ["SHOP_REPORTS"])
        incidents = Incidents(service, partial(ask, control), reports)
        address = Address(port=int(os.environ["SHOP_PORT"]))
        with Server(service, address, endpoints(incidents, reports)) as server:
            sys.stderr.write(f"Serving {app.name} at {server.url}\n")
            ended.wait()


if __name__ == "__main__":
    main()
