"""Health, metrics and sessions: whether it lives, whether it is ready, its figures for Prometheus, and who asks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from starlette.responses import Response

from headwater.log.lag import Lag
from headwater.model.encoding import format_instant
from headwater.model.position import START
from headwater.server import bodies
from headwater.server.answers import answer
from headwater.server.console_files import INDEX, file_answer, wants_page
from headwater.server.counters import Family, counter, gauge, render
from headwater.server.endpoint import COOKIE, Answer, Call, Endpoint, json_answer
from headwater.server.failures import no_token
from headwater.server.pipelines import failure_of
from headwater.server.readiness import problems, status_of
from headwater.server.service import Service
from headwater.server.shapes import ANYTHING, TEXT, WHOLE, YES_NO, by_name, many, maybe, thing
from headwater.server.tokens import Token
from headwater.server.vitals import vitals
from headwater.system.background import BackgroundState, background_states

TAG = "Health"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
SESSION_SECONDS = 30 * 24 * 3600


async def root(call: Call) -> Response:
    if wants_page(call.request.headers.get("accept", "")):
        page = file_answer(INDEX, call.request.headers.get("if-none-match", ""))
        page.headers["Vary"] = "Accept"
        return page
    links = {"api": "/openapi.json", "health": "/healthz", "topics": "/topics", "views": "/views", "flow": "/flow"}
    return answer({"name": call.service.app.name, "version": version("headwater"), "links": links})


async def healthz(_call: Call) -> Response:
    states = background_states()
    body = {
        "status": "degraded" if any(state.is_down for state in states) else "ok",
        "background": {state.name: _background_json(state) for state in states},
    }
    return answer(body)


def _background_json(state: BackgroundState) -> dict[str, object]:
    """What everybody may know: an error itself is in the server's log."""
    failed_at = None if state.failed_at is None else format_instant(state.failed_at)
    return {"status": state.status, "restarts": state.restarts, "failed_at": failed_at}


async def readyz(call: Call) -> Response:
    found = await call.service.threads.run(problems, call.service)
    status = status_of(found)
    checks = {name: None if problem is None else problem.error for name, problem in found.items()}
    return answer({"status": status, "checks": checks}, status=503 if status == "not_ready" else 200)


async def metrics(call: Call) -> Response:
    text = await call.service.threads.run(lambda: render(families(call.service)))
    return Response(text, media_type=PROMETHEUS)


def families(service: Service) -> Iterator[Family]:
    """All figures."""
    log, reader = service.log, service.reader
    current = reader.current()
    position = log.position()
    ends = [(topic.name, part, end) for topic in log.topics() for part, (_, end) in log.offsets(topic.name).items()]
    yield gauge("headwater_log_position", "The number of the log's last commit.", [({}, START.behind(position))])
    yield counter(
        "headwater_topic_records_total",
        "Records ever appended to a partition.",
        [({"topic": topic, "partition": part}, end) for topic, part, end in ends],
    )
    yield gauge(
        "headwater_topic_bytes",
        "Bytes of a topic on disk.",
        [({"topic": name}, size) for name, size in service.history.sizes.topics.items()],
    )
    if current is not None:
        yield gauge("headwater_view_position", "The position of the views.", [({}, START.behind(current.position))])
        behind = current.position.behind(position)
        yield gauge("headwater_behind_commits", "Commits that the views have not seen.", [({}, behind)])
        yield counter("headwater_batches_total", "Batches ever published.", [({}, current.batch)])
    last = service.history.samples[-1] if service.history.samples else None
    if last is not None:
        if last.batch_seconds is not None:
            yield gauge("headwater_batch_seconds", "How long the last batch took.", [({}, last.batch_seconds)])
        about = "Rows of views that changed since the server started."
        changed = [({"view": view}, rows) for view, rows in last.views.items()]
        yield counter("headwater_view_changes_total", about, changed)
    yield gauge(
        "headwater_state_bytes",
        "Bytes of views and of operators' state on disk.",
        [({"part": part}, size.bytes) for part, size in service.history.sizes.state.items()],
    )
    yield from _lag(log.lag())
    yield from _followers(log.followers.lag())
    if service.app.sinks:
        yield from _sinks(service)
    yield gauge("headwater_excluded_records", "Records that views refuse.", [({}, len(reader.excluded()))])
    yield gauge("headwater_pipeline_failed", "1 if it failed.", [({}, float(failure_of(service) is not None))])
    yield from vitals(service, current)
    yield from _own(service)


def _lag(lag: list[Lag]) -> Iterator[Family]:
    labels = [{"group": one.group, "topic": one.topic, "partition": one.partition} for one in lag]
    pairs = list(zip(labels, lag, strict=True))
    yield gauge("headwater_lag_records", "Records a group has not read.", [(at, one.records) for at, one in pairs])
    yield gauge("headwater_lag_bytes", "Bytes of them.", [(at, one.bytes) for at, one in pairs])
    yield gauge("headwater_lag_seconds", "Age of the oldest of them.", [(at, one.seconds) for at, one in pairs])
    about = "Part of the retention that a group has used up by being late; 1: its next record is about to be deleted."
    yield gauge("headwater_lag_risk", about, [(at, one.risk) for at, one in pairs if one.risk is not None])
    about = "Records that retention deleted before a group read them, until it continues behind them."
    yield gauge("headwater_lag_gone_records", about, [(at, one.gone) for at, one in pairs])


def _followers(lag: list[Lag]) -> Iterator[Family]:
    labels = [{"follower": one.group, "kind": one.kind, "topic": one.topic, "partition": one.partition} for one in lag]
    pairs = list(zip(labels, lag, strict=True))
    about = "Records a follower, such as a pipeline, has not read."
    yield gauge("headwater_follower_lag_records", about, [(at, one.records) for at, one in pairs])
    about = "Age of the oldest of them."
    yield gauge("headwater_follower_lag_seconds", about, [(at, one.seconds) for at, one in pairs])
    about = "Bytes that are older than the retention and kept for followers that have not read them."
    yield gauge("headwater_follower_held_bytes", about, [(at, one.held) for at, one in pairs])
    about = "Part of the retention and its limits that a follower has used up; 1: records are about to be deleted."
    yield gauge("headwater_follower_risk", about, [(at, one.risk) for at, one in pairs if one.risk is not None])
    about = "Records that were deleted although a follower still needed them."
    yield gauge("headwater_follower_missed_records", about, [(at, one.gone) for at, one in pairs])


def _sinks(service: Service) -> Iterator[Family]:
    states = [
        ({"sink": name, "view": feed.view, "kind": feed.sink.kind}, feed.status(service.reader))
        for name, feed in service.app.sinks.items()
    ]
    about = "Deliveries to a sink that have arrived."
    yield counter("headwater_sink_deliveries_total", about, [(at, one.deliveries) for at, one in states])
    about = "Attempts to deliver that have failed."
    yield counter("headwater_sink_failures_total", about, [(at, one.failures) for at, one in states])
    about = "Changed rows that are still to be delivered."
    yield gauge("headwater_sink_lag_rows", about, [(at, one.lag) for at, one in states if one.lag is not None])
    about = "Age of the first change that is still to be delivered."
    seconds = [(at, one.lag_seconds) for at, one in states if one.lag_seconds is not None]
    yield gauge("headwater_sink_lag_seconds", about, seconds)
    yield counter(
        "headwater_sink_rows_total", "Changed rows that were delivered.", [(at, one.rows) for at, one in states]
    )
    about = "1 if a sink is paused, on request or because its target failed for too long."
    yield gauge("headwater_sink_paused", about, [(at, float(one.status == "paused")) for at, one in states])


def _own(service: Service) -> Iterator[Family]:
    counters = service.counters
    yield counters.family("headwater_http_requests_total", "Requests answered.")
    yield counters.durations("headwater_http_request_seconds", "Until an answer began.")
    yield counters.family("headwater_http_records_total", "Records appended over HTTP.")
    yield counters.family("headwater_streams_stalled_total", "Streams ended because the client took nothing.")
    yield counters.family("headwater_queries_ended_total", "Queries ended by a limit.")
    about = "Servers started again because one had failed."
    yield counter("headwater_server_restarts_total", about, [({}, service.running.server_restarts)])
    yield gauge("headwater_connections", "Open connections.", [({}, len(service.connections))])
    yield counters.family("headwater_connections_refused_total", "Connections closed because there were too many.")
    yield counters.family("headwater_connections_ended_total", "Connections ended by a limit.")
    yield counters.family("headwater_answers_dropped_total", "Answers that their clients did not take in time.")
    in_flight = [({"of": "bodies"}, service.bodies.bytes), ({"of": "answers"}, service.answers.bytes)]
    yield gauge("headwater_bytes_in_flight", "Bodies and answers in memory.", in_flight)
    yield gauge("headwater_streams", "Open streams of events.", [({}, service.streams)])
    subscribers = [({"view": view}, count) for view, count in service.subscribers().items()]
    yield gauge("headwater_subscribers", "Followers of a view.", subscribers)
    yield counter(
        "headwater_subscribers_dropped_total",
        "Followers that were too slow.",
        [({"view": view}, count) for view, count in service.dropped().items()],
    )
    done = service.verifications
    yield counter("headwater_verifications_total", "Verifications done.", [({}, done.done)])
    yield counter("headwater_verifications_wrong_total", "Verifications that found a difference.", [({}, done.wrong)])
    if service.statsd is not None:
        counts = service.statsd.counts
        yield counter("headwater_statsd_samples_total", "StatsD samples appended.", [({}, counts.samples)])
        lost = [("malformed", counts.malformed), ("refused", counts.refused), ("kernel", counts.dropped_by_kernel)]
        about = "StatsD samples or datagrams lost, as far as it can be told."
        yield counter("headwater_statsd_lost_total", about, [({"reason": reason}, n) for reason, n in lost])


async def session(call: Call) -> Response:
    return answer(_session(call.service, call.token))


def _session(service: Service, token: Token | None) -> dict[str, object]:
    return {
        "scope": "admin" if token is None else token.scope,
        "token": None if token is None else token.name,
        "tokens_needed": service.needs_tokens,
        "pages": [page._asdict() for page in service.pages],
    }


async def begin_session(call: Call) -> Response:
    text = await call.text_member("token", 'Write {"token": "hw_…"}.')
    token = call.service.tokens.find(text)
    if token is None:
        raise no_token("The token is not known.")
    response = answer(_session(call.service, token))
    response.set_cookie(
        COOKIE, text, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=call.service.secure
    )
    return response


async def end_session(call: Call) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=call.service.secure)
    return response


PAGE = thing(name=TEXT, text=TEXT, module=TEXT)
SESSION = thing(scope=TEXT, token=maybe(TEXT), tokens_needed=YES_NO, pages=many(PAGE))
SIGN_IN = {**thing(token=TEXT), "additionalProperties": False}
ALIVE = thing(
    status=TEXT, background=by_name(thing(status=TEXT, restarts=WHOLE, failed_at=maybe(TEXT))),
)  # fmt: skip
READY = thing(status=TEXT, checks=by_name(ANYTHING))

ENDPOINTS = (
    Endpoint(
        "GET", "/", root, "The server's name; the console, with Accept: text/html, as browsers send it",
        {200: Answer(
            "Its name, and where to look; or a page.",
            {bodies.JSON: thing(name=TEXT, version=TEXT, links=by_name(TEXT)), "text/html": TEXT},
        )},
        None, tag=TAG,
    ),
    Endpoint(
        "GET", "/healthz", healthz, "Whether the server is alive, and what it keeps running",
        {200: json_answer("`ok`, or `degraded` while background work has failed or restarts.", ALIVE)}, None, tag=TAG,
    ),
    Endpoint(
        "GET", "/readyz", readyz, "Whether there is something to read, everything is running, and nothing has failed",
        {
            200: json_answer("`ready`, or `degraded` and why.", READY),
            503: json_answer("`not_ready`, and why.", READY),
        },
        None, tag=TAG,
    ),
    Endpoint(
        "GET", "/metrics", metrics, "Figures for Prometheus", {200: Answer("Text.", {"text/plain": TEXT})}, tag=TAG
    ),
    Endpoint(
        "GET", "/session", session, "What the client may do", {200: json_answer("Its scope.", SESSION)}, tag=TAG
    ),
    Endpoint(
        "POST", "/session", begin_session, "Keep a token in a cookie, for a browser",
        {200: json_answer("Its scope.", SESSION)}, None, accepts={bodies.JSON: SIGN_IN}, tag=TAG,
    ),
    Endpoint(
        "DELETE", "/session", end_session, "Forget the cookie", {204: Answer("It is forgotten.")}, None, tag=TAG
    ),
)  # fmt: skip
