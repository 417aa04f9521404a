"""Standing by: everything that takes long is done, and the moment the running application ends, this one takes over."""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.app import App
from headwater.cli.app_progress import steps
from headwater.cli.output import complain, say
from headwater.cli.quantities import format_age
from headwater.engine.presence import Turn
from headwater.errors import SparkStopped, UsageError, WorkerLost
from headwater.system.heartbeat import read_heartbeat

LOOK_SECONDS = 0.05
WARM_SECONDS = 30.0
"""How often it is made sure that everything is ready: Spark ends workers that nobody has used for a minute."""
RETRY_SECONDS = 5.0


def stand_by(app: App, turn: Turn, after_warming: Callable[[], None]) -> None:
    """Returns when nobody else runs the application, and this process may."""
    began = time.monotonic()
    heartbeat = read_heartbeat(app.directory)
    other = "another process" if heartbeat is None else f"process {heartbeat.pid} on {heartbeat.host}"
    say(f"Standing by for {app.name}, which {other} is running.")
    warm_at, shown = began, False
    while not turn.has_come():
        if time.monotonic() >= warm_at:
            ready = _warm_up(app)
            # A Spark that was started again has its own answer to signals.
            after_warming()
            if ready and not shown:
                say("Ready to take over.")
            shown, warm_at = shown or ready, time.monotonic() + (WARM_SECONDS if ready else RETRY_SECONDS)
        time.sleep(LOOK_SECONDS)
    app.refresh()
    say(f"Took over after standing by for {format_age(time.monotonic() - began)}.")


def _warm_up(app: App) -> bool:
    """Whether the first batch can begin at once. What fails because of lost processes is tried again later."""
    try:
        with steps() as step:
            step("Getting ready to take over")
            app.warm_up()
    except (SparkStopped, WorkerLost) as error:
        complain(f"{error.message} Trying again in {RETRY_SECONDS:g} s.")
        return False
    except UsageError:
        # Topics of a capture come to be when it runs for the first time.
        if not app.sources:
            raise
        return False
    return True
