"""Outbox: rows that a program inserts in its own transaction become events of the topics that they name.

    CREATE TABLE outbox (id uuid PRIMARY KEY, topic text NOT NULL, key text, payload jsonb NOT NULL)
    SELECT pg_logical_emit_message(true, 'outbox.orders', '{"id": 1}')      -- without a table

An event enters the log in the commit of its transaction, in the order of its inserts. If the topic is there, the
payload is a JSON object with its columns; otherwise the topic is made, with `key` and `payload` as texts. An event that
does not fit its topic stops nothing: it goes to the topic `<source>._refused`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.headers import HEADERS
from headwater.cdc.postgres.lsn import Lsn
from headwater.cdc.postgres.texts import to_texts
from headwater.cdc.postgres.transactions import LogicalMessage
from headwater.connectors.postgres.copying import EMITTED, with_headers
from headwater.connectors.postgres.inventory import Connection
from headwater.connectors.postgres.naming import literal, qualified, quoted
from headwater.connectors.postgres.options import CaptureOptions
from headwater.connectors.postgres.setup import Say
from headwater.connectors.postgres.tables import Table, Tables
from headwater.errors import InvalidName, UnknownTopic
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.rows import parse_json_lines
from headwater.system.names import check_name

EVENT_SCHEMA = "key string, payload string"
REFUSED_SCHEMA = "topic string, reason string, payload string"
MESSAGE_PREFIX = "outbox."
TOPIC, KEY, PAYLOAD = "topic", "key", "payload"
_PLAIN = [(KEY, pa.string()), (PAYLOAD, pa.string())]
_INSERTED = ("c", "r")
# How many rows of an outbox are deleted at a time.
SWEEP_ROWS_MAX = 10_000

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one topic, each with the number of its transaction."""

    topic: str
    rows: pa.Table
    numbers: Numbers


def _merged(parts: Sequence[Events]) -> Iterator[Events]:
    """The events of each topic together, in the order of their transactions: commits of a topic do not go back."""
    by_topic: dict[str, list[Events]] = {}
    for part in parts:
        by_topic.setdefault(part.topic, []).append(part)
    for topic, same in by_topic.items():
        numbers = np.concatenate([part.numbers for part in same])
        order = np.argsort(numbers, kind="stable")
        yield Events(topic, pa.concat_tables([part.rows for part in same]).take(pa.array(order)), numbers[order])


class Outbox:
    """Routes the rows of a source's outbox table, and its messages, to topics."""

    def __init__(self, log: Log, options: CaptureOptions) -> None:
        self._log, self._options = log, options
        self._refused = f"{options.name}._refused"

    def is_outbox(self, table: Table) -> bool:
        return self._options.is_outbox(table.name)

    def route(self, table: Table, rows: pa.Table, numbers: Numbers) -> Iterator[Events]:
        """What is to be appended for rows of a table: themselves, or, for the outbox, the events that they are."""
        if not self.is_outbox(table):
            yield Events(table.topic, rows, numbers)
            return
        operations = pc.map_lookup(rows[HEADERS.name].combine_chunks(), "op", "first")
        inserted = pc.is_in(operations, pa.array(_INSERTED)).to_numpy(zero_copy_only=False)
        rows, numbers = rows.filter(pa.array(inserted)), numbers[inserted]
        if not rows.num_rows:
            return
        for column in (KEY, PAYLOAD, TOPIC):
            if column not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(rows.num_rows, pa.string()))
            elif rows[column].type != pa.string():
                values = pa.concat_arrays([pa.array([], rows[column].type), *rows[column].chunks])
                texts = to_texts(values, values.type)
                rows = rows.set_column(rows.schema.get_field_index(column), column, texts)
        found: list[Events] = []
        for name in pc.unique(rows[TOPIC]).to_pylist():
            named = rows[TOPIC].is_null() if name is None else pc.fill_null(pc.equal(rows[TOPIC], name), False)
            mine = named.to_numpy(zero_copy_only=False)
            part = rows.filter(pa.array(mine)).select([KEY, PAYLOAD, HEADERS.name])
            found += self.events(name or "", part, numbers[mine])
        yield from _merged(found)

    def message(self, message: LogicalMessage, headers: Mapping[str, str]) -> Iterator[Events]:
        """What is to be appended for a message of a program: an event, if its prefix says of which topic."""
        topic = message.prefix.removeprefix(MESSAGE_PREFIX)
        if topic == message.prefix:
            return
        content = message.content.decode(errors="replace")
        rows = pa.table({"key": pa.nulls(1, pa.string()), "payload": pa.array([content])})
        yield from self.events(topic, with_headers(rows, headers, operation=EMITTED), np.zeros(1, np.int64))

    def events(self, topic: str, rows: pa.Table, numbers: Numbers) -> Iterator[Events]:
        """Rows with `key`, `payload` and headers as events of a topic; those that do not fit, as refused ones."""
        try:
            found = self._topic(topic)
        except InvalidName as error:
            yield self._refuse(topic, rows, numbers, [error.message] * rows.num_rows)
            return
        if [(each.name, each.type) for each in found.schema] != _PLAIN:
            yield from self._typed(found, rows, numbers)
            return
        fits = np.ones(rows.num_rows, np.bool_)
        for name in found.key:
            fits &= rows[name].is_valid().to_numpy(zero_copy_only=False)
        if not fits.all():
            reasons = [f"the topic's key is {', '.join(found.key)}, and it has none"] * int((~fits).sum())
            yield self._refuse(topic, rows.filter(pa.array(~fits)), numbers[~fits], reasons)
        if fits.any():
            yield Events(topic, rows.filter(pa.array(fits)), numbers[fits])

    def _typed(self, topic: Topic, rows: pa.Table, numbers: Numbers) -> Iterator[Events]:
        """Payloads as the columns of their topic."""
        payloads = rows[PAYLOAD].cast(pa.string()).to_pylist()
        # One object a line, whatever white space a payload has; what is no object is refused below.
        lines = [(" ".join((payload or "").splitlines()).strip() or "null").encode() for payload in payloads]
        records, rejected = parse_json_lines(b"\n".join(lines), topic.schema, key=topic.key)
        reasons = {each.index: each.reason for each in rejected}
        fits = np.array([number not in reasons for number in range(rows.num_rows)])
        if fits.any():
            headers = rows[HEADERS.name].filter(pa.array(fits))
            kept = records.select([name for name in records.column_names if name in topic.schema.names])
            yield Events(topic.name, kept.append_column(HEADERS, headers), numbers[fits])
        if reasons:
            yield self._refuse(
                topic.name, rows.filter(pa.array(~fits)), numbers[~fits], [reasons[n] for n in sorted(reasons)]
            )

    def _refuse(self, topic: str, rows: pa.Table, numbers: Numbers, reasons: Sequence[str]) -> Events:
        self._log.create(self._refused, REFUSED_SCHEMA, exist_ok=True)
        columns = {"topic": [topic] * rows.num_rows, "reason": list(reasons), "payload": rows[PAYLOAD]}
        return Events(self._refused, pa.table(columns).append_column(HEADERS, rows[HEADERS.name]), numbers)

    def _topic(self, name: str) -> Topic:
        try:
            return self._log.topic(check_name("topic", name))
        except UnknownTopic:
            return self._log.create(name, EVENT_SCHEMA)


class Sweeper:
    """Knows which rows wait until the log is past where they were seen."""

    def __init__(self, options: CaptureOptions, tables: Tables, say: Say) -> None:
        self._options, self._tables, self._say = options, tables, say
        self._seen: tuple[int, Sequence[tuple[Any, ...]]] | None = None
        self._refused = ""

    def sweep(self, connection: Connection, lsn: Lsn) -> None:
        """Deletes rows that were there when the database was behind `lsn`, up to which the log has everything."""
        if not self._options.outbox or not self._options.outbox_delete:
            return
        table = self._tables.named(self._options.outbox)
        if table is None or table.stopped is not None or not table.key:
            return
        if self._seen is not None and lsn >= self._seen[0]:
            self._delete(connection, table, self._seen[1])
            self._seen = None
        if self._seen is None:
            listed = ", ".join(f"{quoted(name)}::text" for name in table.key)
            name = qualified(table.relation.schema, table.relation.table)
            # The place is asked for after the rows: whatever is seen was committed before it.
            rows = connection.execute(f"SELECT {listed} FROM {name} LIMIT {SWEEP_ROWS_MAX}".encode()).fetchall()
            [(place,)] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            self._seen = (Lsn.parse(str(place)), rows) if rows else None

    def _delete(self, connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]]) -> None:
        listed = ", ".join(quoted(name) for name in table.key)
        values = ", ".join(f"({', '.join(literal(str(text)) for text in key)})" for key in keys)
        name = qualified(table.relation.schema, table.relation.table)
        try:
            connection.execute(f"DELETE FROM {name} WHERE ({listed}) IN ({values})".encode())
        except psycopg.errors.InsufficientPrivilege as error:
            # Events are captured all the same.
            reason = f"Rows of the outbox are not deleted: {error.diag.message_primary}."
            if reason != self._refused:
                self._refused = reason
                self._say(reason)
