"""The outbox: events in the transaction that wrote them, once, in their order."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres.requests import request_snapshot
from headwater.errors import CaptureRefused
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import catch_up

Source = psycopg.Connection[Any]
OUTBOX = "CREATE TABLE outbox (id serial PRIMARY KEY, topic text NOT NULL, key text, payload jsonb NOT NULL)"


def put(source: Source, topic: str, payload: object, key: str | None = None) -> None:
    source.execute("INSERT INTO outbox (topic, key, payload) VALUES (%s, %s, %s)", (topic, key, json.dumps(payload)))


def test_rows_become_events_of_the_topic_they_name(source: Source, log: Log, make: Make) -> None:
    source.execute(OUTBOX)
    source.execute("CREATE TABLE orders (id int4 PRIMARY KEY)")
    log.create("typed", "order_id bigint NOT NULL, total decimal(10,2)")
    put(source, "plain", {"n": 0}, "before")
    capture = make("orders", outbox="outbox")
    catch_up(capture, source)
    with source.transaction():
        put(source, "plain", {"n": 1}, "k")
        source.execute("INSERT INTO orders VALUES (1)")
        put(source, "typed", {"order_id": 7, "total": "1.50"})
        put(source, "typed", {"order_id": "seven"})
        put(source, "not a name!", {})
        put(source, "plain", {"n": 2}, "k")
        source.execute("SELECT pg_logical_emit_message(true, 'outbox.typed', '{\"order_id\": 8}')")
        source.execute("SELECT pg_logical_emit_message(true, 'somebody else', 'x')")
    with source.transaction(force_rollback=True):
        put(source, "plain", {"n": 3})
        source.execute("SELECT pg_logical_emit_message(true, 'outbox.typed', '{\"order_id\": 9}')")
    source.execute("DELETE FROM outbox")
    source.execute("SELECT pg_logical_emit_message(false, 'outbox.plain', '{\"n\": 4}')")
    catch_up(capture, source)
    catch_up(make("orders", outbox="outbox"), source)  # nothing comes twice
    plain = [(record.value["key"], record.value["payload"]) for record in log.read("plain") if record.value]
    assert plain == [("before", '{"n": 0}'), ("k", '{"n": 1}'), ("k", '{"n": 2}'), (None, '{"n": 4}')]
    assert [record.value["order_id"] for record in log.read("typed") if record.value] == [7, 8]
    name = capture.options.name
    refused = log.scan(f"{name}._refused").to_pylist()
    assert [row["topic"] for row in refused] == ["typed", "not a name!"]
    positions = {record.position for record in log.read([f"{name}.orders", "typed", f"{name}._refused"])}
    assert len(positions) == 1, "one transaction, one commit"


def test_rows_can_be_deleted_once_they_are_captured(source: Source, log: Log, make: Make) -> None:
    source.execute(OUTBOX)
    capture = make("outbox", outbox="outbox", outbox_delete=True, heartbeat=timedelta(seconds=0.1))
    for number in range(20):
        put(source, "events", {"n": number})
    capture.run(lambda _: source.execute("SELECT count(*) FROM outbox").fetchone() == (0,))
    payloads = [json.loads(str(record.value["payload"]))["n"] for record in log.read("events") if record.value]
    assert payloads == list(range(20))


def test_events_that_do_not_fit_stop_nothing(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE outbox (id serial PRIMARY KEY, topic text, key int8, payload text)")
    log.create("keyed", "key string, payload string", key="key")
    log.create("typed", "n int")
    capture = make(outbox="outbox")
    catch_up(capture, source)
    source.execute("INSERT INTO outbox (topic, key, payload) VALUES ('keyed', 7, 'a'), ('keyed', NULL, 'b')")
    source.execute(
        "INSERT INTO outbox (topic, payload) VALUES ('typed', '  '), ('typed', E'{\n\"n\":\r\n 1}'), (NULL, 'c')"
    )
    source.execute("SELECT pg_logical_emit_message(true, 'outbox.keyed', 'd')")
    catch_up(capture, source)
    assert log.table("keyed").to_pylist() == [{"key": "7", "payload": "a"}]
    assert log.scan("typed")["n"].to_pylist() == [1]
    refused = log.scan(f"{capture.options.name}._refused").to_pylist()
    assert sorted(row["payload"] for row in refused) == ["  ", "b", "c", "d"]
    for number in range(10):  # small transactions, which are committed together
        topic = ("typed", "keyed", "not a name")[number % 3]
        source.execute("INSERT INTO outbox (topic, payload) VALUES (%s, %s)", (topic, f"x{number}"))
    catch_up(capture, source)
    late = list(log.read(f"{capture.options.name}._refused"))[4:]
    assert [record.value and record.value["payload"] for record in late] == [f"x{number}" for number in range(10)]
    assert [record.offset for record in late] == list(range(4, 14))
    with pytest.raises(CaptureRefused, match="An outbox has events"):
        request_snapshot(log, capture.options, "outbox")
