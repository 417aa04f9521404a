"""Views over HTTP: their content by condition, order and page, one key of them, every change, and queries over all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from starlette.responses import Response

from headwater.engine.arrangements import view_sizes
from headwater.engine.publication import Generation
from headwater.errors import Refused, UnknownView
from headwater.model.ddl import format_type
from headwater.model.encoding import json_rows
from headwater.model.position import Position
from headwater.server import bodies, sse
from headwater.server.answers import EventStream, answer, while_connected
from headwater.server.batches import batch_json, size_json
from headwater.server.endpoint import Answer, Call, Endpoint, json_answer
from headwater.server.failures import bad_request, too_many
from headwater.server.filters import matching, ordered, parse_condition, typed
from headwater.server.parameters import AT, READING, VIEW, WHERE, Parameter, limit, path
from headwater.server.records import LAST_ID
from headwater.server.service import Service
from headwater.server.shapes import (
    ANYTHING,
    BATCH,
    COLUMN,
    NUMBER,
    POSITION,
    ROW,
    SIZE,
    TEXT,
    WHOLE,
    YES_NO,
    many,
    maybe,
    thing,
)
from headwater.server.sse import Mark

TAG = "Views"
BATCHES_SHOWN = 100
ORDER = Parameter(
    "order",
    {"type": "string", "minLength": 1, "maxLength": 1000},
    "Columns, separated by commas; -column sorts in descending order.",
)
OFFSET = Parameter("offset", {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}, "Skip this many rows.")
SUMMARY = thing(
    name=TEXT, sql=TEXT, columns=many(COLUMN), key=many(TEXT), reads=many(TEXT), size=maybe(SIZE),
    changes_per_second=NUMBER, subscribers=WHOLE, verification=ANYTHING, published=YES_NO, not_kept=maybe(TEXT),
)  # fmt: skip
DETAIL = thing(
    position=maybe(POSITION), view=SUMMARY, explanation=ANYTHING, batches=many(BATCH), generation=maybe(WHOLE)
)
CONTENT = thing(position=POSITION, columns=many(COLUMN), rows=many(ROW), matching=WHOLE, offset=WHOLE)
FOUND = thing(position=POSITION, key=ROW, rows=many(ROW))
ANSWER = thing(position=POSITION, columns=many(COLUMN), rows=many(ROW), cut=YES_NO)


async def list_views(call: Call) -> Response:
    service = call.service
    if call["at_least"] is not None:
        await service.views_at(call["at_least"], call["wait"])
    current, found = await service.threads.run(_all, service)
    position = None if current is None else current.position
    return answer({"position": None if position is None else str(position), "views": found}, position)


def _all(service: Service) -> tuple[Generation | None, list[dict[str, object]]]:
    current = service.reader.current()
    return current, [summary(service, current, name) for name in known(service, current)]


def known(service: Service, current: Generation | None) -> list[str]:
    """The views that are published, and those that are to be."""
    published = {} if current is None else current.definition.views
    return list(dict.fromkeys([*published, *service.app.views]))


def check_view(service: Service, view: str) -> None:
    """Raises `UnknownView` if there is no such view."""
    views = known(service, service.reader.current())
    if view not in views:
        raise UnknownView(view, views)


def summary(service: Service, current: Generation | None, view: str) -> dict[str, object]:
    """A view in a list."""
    published = None if current is None else current.definition.views.get(view)
    schema = pa.schema([]) if published is None else published.schema
    return {
        "name": view,
        "sql": service.app.views.get(view, "") if published is None else published.sql,
        "columns": _columns(schema),
        "key": list(key_columns(service, view, schema)),
        "reads": [] if published is None else list(published.reads),
        "size": size_json(view_sizes(service.history.sizes.state).get(view)),
        "changes_per_second": round(service.history.rates()["views"].get(view, 0.0), 3),
        "subscribers": service.subscribers().get(view, 0),
        "verification": service.verifications.state(view),
        "published": published is not None,
        "not_kept": service.processes.not_kept().get(view),
    }


def key_columns(service: Service, view: str, schema: pa.Schema) -> Sequence[str]:
    """The columns by which rows of a view are found: those that the application names, or the first."""
    return service.app.keys.get(view) or schema.names[:1]


async def describe(call: Call) -> Response:
    service, view = call.service, call["view"]
    if call["at_least"] is not None:
        await service.views_at(call["at_least"], call["wait"])
    found = await service.threads.run(_detail, service, view)
    return answer(found, None if found["position"] is None else Position.parse(str(found["position"])))


def _detail(service: Service, view: str) -> dict[str, object]:
    check_view(service, view)
    current = service.reader.current()
    return {
        "position": None if current is None else str(current.position),
        "view": summary(service, current, view),
        "explanation": None if current is None else _explanation(service, current, view),
        "batches": [batch_json(one) for one in service.reader.published(BATCHES_SHOWN)],
        "generation": None if current is None else current.id,
    }


def _explanation(service: Service, current: Generation, view: str) -> dict[str, object] | None:
    """The operators of a view, each with the size of its state, and what reaches them."""
    whole = current.definition.explanation
    if view not in whole.views:
        return None
    shown = whole.of(view).with_state(service.history.sizes.state).to_json()
    return {"publishes": whole.views[view], "origins": shown["origins"], "operators": shown["operators"]}


async def content(call: Call) -> Response:
    service = call.service
    at = None if call["at"] is None else Position.parse(call["at"])
    if at is not None and call["at_least"] is not None:
        raise bad_request("A view is read at a position or at_least at one, not both.", "Leave one of them out.")
    wanted = await service.views_at(call["at"] or call["at_least"], call["wait"])
    conditions = [parse_condition(text) for text in call["where"]]
    most = min(call["limit"] or 100, service.limits.page_rows_max)

    def read() -> tuple[Position, dict[str, object]]:
        if at is None:
            position, table = service.contents.read(call["view"], wanted)
        else:
            position, table = service.contents.read_at(call["view"], at)
        found = matching(table, conditions)
        page = ordered(found, call["order"]).slice(call["offset"] or 0, most)
        return position, {
            "position": str(position),
            "columns": _columns(table.schema),
            "rows": list(json_rows(page)),
            "matching": found.num_rows,
            "offset": call["offset"] or 0,
        }

    position, body = await service.threads.run(read)
    return answer(body, position)


async def by_key(call: Call) -> Response:
    service = call.service
    wanted = await service.views_at(call["at_least"], call["wait"])
    # A key of several columns has a part of the path for each; a slash inside of one is written %2F.
    raw = call.request.scope["raw_path"].decode("latin-1").split("?")[0]
    parts = [unquote(part) for part in raw.split("/")[4:]]

    def find() -> tuple[Position, dict[str, object]]:
        shown: dict[str, object] = {}

        def key(schema: pa.Schema) -> dict[str, pa.Array]:
            # Around the columns of the view are the hash of a row and its weight.
            columns = service.app.keys.get(call["view"]) or schema.names[1:-1][:1]
            made = _key(parts, columns, schema)
            shown.update(next(json_rows(pa.table(made))))
            return made

        snapshot = service.reader.find(call["view"], key, wanted, timedelta(0))
        rows = list(json_rows(snapshot.tables[call["view"]].slice(0, service.limits.page_rows_max)))
        if not rows:
            raise Refused(
                404,
                "no_such_row",
                f"View {call['view']!r} has no row with this key.",
                hint="It may not be there yet: at_least waits for a position.",
                position=str(snapshot.position),
                key=shown,
            )
        return snapshot.position, {"position": str(snapshot.position), "key": shown, "rows": rows}

    position, body = await service.threads.run(find)
    return answer(body, position)


def _key(parts: Sequence[str], columns: Sequence[str], schema: pa.Schema) -> dict[str, pa.Array]:
    if len(parts) != len(columns):
        raise bad_request(
            f"The key has {len(columns)} {'part' if len(columns) == 1 else 'parts'}: {', '.join(columns)}.",
            "Write them one after the other: /views/NAME/rows/first/second.",
        )
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise bad_request(f"The view has no column {missing[0]!r}.", "Name a key in app.view(…, key=…).")
    return {name: typed(text, schema.field(name)) for name, text in zip(columns, parts, strict=True)}


async def changes(call: Call) -> Response:
    service = call.service
    after = Mark.parse(call["Last-Event-ID"]) if call["Last-Event-ID"] else None
    await service.views_at(call["at_least"], call["wait"])
    await service.threads.run(check_view, service, call["view"])
    hub = service.hub(call["view"])
    await hub.start()
    hold = service.answers.hold()
    return EventStream(
        hub.events(after, hold),
        stall_seconds=service.limits.stream_stall_seconds_max,
        on_end=service.open_stream(),
        hold=hold,
    )


async def ask(call: Call) -> Response:
    service, limits = call.service, call.service.limits
    sql = await call.text_member("sql", 'Write {"sql": "SELECT …"}.')
    wanted = await service.views_at(call["at_least"], call["wait"])
    if service.queries >= limits.queries_max:
        raise too_many("queries")
    service.queries += 1
    try:
        rows = min(call["limit"] or limits.query_rows_max, limits.query_rows_max)
        return await while_connected(call.request, service.query_pool.answer(sql, rows, wanted))
    finally:
        service.queries -= 1


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": format_type(field.type)} for field in schema]


QUERY: dict[str, Any] = {**thing(sql=TEXT), "additionalProperties": False}

ENDPOINTS = (
    Endpoint(
        "GET", "/views", list_views, "All views",
        {200: json_answer("In the order of their definition.", thing(position=maybe(POSITION), views=many(SUMMARY)))},
        parameters=READING, tag=TAG,
    ),
    Endpoint(
        "GET", "/views/{view}", content, "The rows of a view",
        {200: json_answer("A page of those that match, all at one position.", CONTENT)},
        parameters=(VIEW, WHERE, ORDER, limit(10_000), OFFSET, AT, *READING), tag=TAG,
        about="With `at` they are as they were at that position, for as long as later changes are kept.",
    ),
    Endpoint(
        "GET", "/views/{view}/definition", describe,
        "A view: SQL, columns, key, what it reads, its operators and their state, its last batches",
        {200: json_answer("The view.", DETAIL)}, parameters=(VIEW, *READING), tag=TAG,
    ),
    Endpoint(
        "GET", "/views/{view}/changes", changes, "Follow a view: its content, then every change",
        {200: Answer(
            "Events: `snapshot` and `change`, each with rows and weights; `reset` before a new snapshot, when the "
            "Last-Event-ID is too old; `dropped` when this reader was too slow: connect again.",
            {sse.CONTENT_TYPE: TEXT},
        )},
        parameters=(VIEW, *READING, LAST_ID), tag=TAG,
        about="An event without an id is part of the next one with an id. Adding up the weights of every row gives "
        "the view's content at the position of the last event.",
    ),
    Endpoint(
        "GET", "/views/{view}/rows/{key:path}", by_key, "The rows of a view with one key",
        {200: json_answer("The rows; one, if the key is unique.", FOUND)},
        parameters=(VIEW, path("key", "A value for each column of the key, with slashes between them."), *READING),
        tag=TAG,
        about="The key is what app.view(key=…) says, or the first column.",
    ),
    Endpoint(
        "POST", "/query", ask, "SQL over views and topics, at one position",
        {200: json_answer("The rows, cut where there are too many.", ANSWER)},
        parameters=(limit(10_000), *READING), accepts={bodies.JSON: QUERY}, tag=TAG,
        about="DuckDB's SQL, a single read-only statement. "
        "`FROM revenue AT POSITION '42'` reads a view or a topic as it was.",
    ),
)  # fmt: skip
