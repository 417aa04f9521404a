"""An application at work: its sources, its pipeline, its sinks and, if it is asked for, the server, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from headwater.app import App
from headwater.engine.parts import Report
from headwater.engine.pipeline import Progress
from headwater.engine.running import Runner, needs_person
from headwater.engine.sinks.feed import Feed
from headwater.engine.sinks.grouped import MemberFeed
from headwater.engine.supervision import Retry
from headwater.errors import Fenced, HeadwaterError, SparkStopped, UnknownView, UsageError
from headwater.server.keeper import Failed, Keeper
from headwater.server.limits import Limits
from headwater.server.running import HOST, PORT, Address, Server, is_free
from headwater.server.service import Running, Service
from headwater.server.verifications import Verify
from headwater.system.background import Account, BackgroundState

LOOK_SECONDS = 0.1
"""How often it is looked whether somebody wants a run to end, while there is nothing else to do."""


@contextmanager
def serving(
    app: App,
    address: Address,
    report: Report,
    limits: Sequence[str] = (),
    *,
    verify: Verify | None = None,
    running: Running | None = None,
) -> Iterator[Keeper]:
    """Serves an application within the block. Raises `UsageError` if it cannot start.

    A server that fails later is restarted; the block keeps running.
    """
    allowed, state = Limits().with_options(limits), running or Running()

    def make(at: Address) -> Server:
        service = Service(
            app,
            limits=allowed,
            tokens_required=at.is_public,
            secure=at.certificate is not None,
            verify=verify,
            running=state,
        )
        return Server(service, at)

    def tell(failed: Failed) -> None:
        state.server_restarts += 1
        report.warn(str(failed))

    with Keeper(make, address, tell) as server:
        if address.is_public and address.certificate is None:
            report.warn("Tokens and records are sent unencrypted: use --tls-certificate, or a proxy with TLS.")
        report.say(f"Serving {app.name} at {server.url}")
        yield server


class Run:
    """Everything of an application, within a `with` block; iterating over `batches` runs its pipeline.

    With `once` neither sinks nor a server are run, and the batches end where the log is when they begin. `asked` says
    whether somebody wants the run to end. The block raises `AlreadyRunning` if another process runs the application,
    unless this one is to `take_over`. With `approve` changed views wait for a decision.
    """

    def __init__(
        self,
        app: App,
        *,
        once: bool = False,
        take_over: bool = False,
        approve: bool = False,
        address: Address | None = None,
        limits: Sequence[str] = (),
        report: Report | None = None,
        asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._once, self._take_over, self._asked = app, once, take_over, asked
        self._approve = approve
        self._address, self._limits = None if once else address, limits
        self._report = report or Report()
        self._sources = list(app.sources.values())
        told = [] if once else [*app.time.parts(), *feeds_of(app), *app.notifiers]
        self._beside = Runner([*self._sources, *told], self._report)
        self._server = Running(runs_here=True)
        self._pipeline = Account("pipeline")
        self._failure: Exception | None = None
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._app.beating(self._about, take_over=self._take_over))
            opened.enter_context(self._beside)
            if self._address is not None:
                server = serving(self._app, self._address, self._report, self._limits, running=self._server)
                opened.enter_context(server)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beside.stop()
        self._pipeline.end()
        self._opened.__exit__(kind, error, trace)

    @property
    def failure(self) -> Exception | None:
        """What the pipeline, or else another part, has failed with for good."""
        return self._failure or self._beside.failure

    def states(self) -> list[BackgroundState]:
        """How each part is."""
        return [*self._beside.states(), self._pipeline.state()]

    def prepare(self, on_step: Callable[[str], None] = lambda _: None) -> None:
        """Waits until the sources are ready, and plans the views.

        Raises what is wrong with the views, and what a source has failed with if nothing else keeps running.
        """
        while not self._asked() and not all(source.is_ready() for source in self._sources):
            if self._once or not self._stays():
                self._beside.check()
            time.sleep(LOOK_SECONDS)
        if self._asked():
            return
        # If its process is lost meanwhile, the first batch begins with it again.
        with suppress(SparkStopped):
            self._app.plan(on_step)
            for text in self._app.lost_history():
                self._report.warn(text)
        on_step("Opening the views")

    def batches(self) -> Iterator[Progress]:
        """Batches until the run is asked to end; with `once`, until the views are where the log is.

        A pipeline that fails is started again with back-off. If only a person can mend it, the run stays for as long as
        other parts keep running, and raises what it has failed with if there is none. It raises `Fenced` at once: all
        that it did is done by the process that took over.
        """
        if self._once:
            if not self._asked():
                yield from self._reported(self._app.batches(on_retry=self._told, approve=self._approve))
                self._beside.check()
            return
        while not self._asked():
            self._pipeline.begin()
            try:
                followed = self._app.follow(
                    self._asked, on_retry=self._told, on_build_failure=self._build_failed, approve=self._approve
                )
                yield from self._reported(followed)
            except Exception as error:
                if self._asked():
                    raise
                if needs_person(error):
                    self._fail(error)
                    return
                self._report.warn(f"The pipeline has failed: {message_of(error)} It will be restarted.")
                self._wait(self._pipeline.fail(error))
                self._app.close_pipeline()
            else:
                return

    def _reported(self, batches: Iterator[Progress]) -> Iterator[Progress]:
        """The batches; tells what was deleted before it was read."""
        for progress in batches:
            for missed in progress.missed:
                self._report.warn(f"The views missed records: {missed}.")
            yield progress

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._pipeline.give_up(error)
        if isinstance(error, HeadwaterError):
            self._server.failure, self._server.failed_at = error, datetime.now(UTC)
        stays = not isinstance(error, Fenced) and self._stays()
        if stays:
            self._report.failed("pipeline", error)
        while stays and self._stays():
            if self._asked():
                return
            time.sleep(LOOK_SECONDS)
        raise error

    def _stays(self) -> bool:
        """Whether anything but the pipeline has work left; sinks have none without it."""
        return self._address is not None or any(self._beside.is_working(source.name) for source in self._sources)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._asked():
            time.sleep(LOOK_SECONDS)

    def _told(self, retry: Retry) -> None:
        self._report.warn(str(retry))

    def _build_failed(self, error: Exception) -> None:
        self._report.warn(
            f"The changed views cannot be built: {message_of(error)} The former ones are kept up to date."
        )

    def _about(self) -> Mapping[str, Any]:
        """What the heartbeat says of the parts."""
        return {"parts": {state.name: {"status": state.status, "error": state.error} for state in self.states()}}


def run(
    app: App,
    on_batch: Callable[[Progress], None],
    *,
    serve: bool | str,
    once: bool,
    take_over: bool,
    approve: bool,
    report: Report | None,
    asked: Callable[[], bool],
) -> None:
    """Runs an application until it is asked to end. Raises what a part has failed with for good."""
    address = None if serve is False else address_of(None if serve is True else serve)
    with Run(
        app, once=once, take_over=take_over, approve=approve, address=address, report=report, asked=asked
    ) as running:
        running.prepare()
        for progress in running.batches():
            on_batch(progress)
            if asked():
                break
    if running.failure is not None:
        raise running.failure


def feeds_of(app: App) -> list[Feed]:
    """What feeds the sinks of an application; one for all that move together. Raises `UnknownView`."""
    for feed in app.sinks.values():
        if feed.view not in app.views:
            raise UnknownView(feed.view, list(app.views))
    feeds = [feed.group if isinstance(feed, MemberFeed) else feed for feed in app.sinks.values()]
    return list(dict.fromkeys(feeds))


def address_of(text: str | None) -> Address:
    """The address that `HOST:PORT` means; without one, the usual port, or any that is free. Raises `UsageError`."""
    if text is None:
        return Address(HOST, PORT if is_free(HOST, PORT) else 0)
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise UsageError(f"{text!r} is not an address to serve at.", hint="Write it as 127.0.0.1:8580.")
    return Address(host or HOST, int(port))


def message_of(error: Exception) -> str:
    """An error in one sentence."""
    return error.message if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}."
