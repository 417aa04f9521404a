"""The client's protocol, without a network: what is asked, what is repeated, and what a failure is told as."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headwater.client import protocol
from headwater.client.answers import Rows
from headwater.client.protocol import TRIES_MAX, Exchange, Pause, Request, Response, Result
from headwater.errors import AnswerLost, HeadwaterError, RequestRefused, ServerUnavailable
from headwater.model.position import Position

DONE = Response(200, b'{"position": "3", "records": 1, "dead_letters": 0, "duplicate": false}')
PAGE = Response(200, b'{"position": "3", "rows": [{"a": 1}], "matching": 2, "offset": 0}')
UNREACHABLE = ServerUnavailable("It is down.", status=0, code="unreachable", hint="", details={})


def failed(status: int, code: str, **details: object) -> Response:
    return Response(status, json.dumps({"error": {"code": code, "message": "No.", "hint": "Try.", **details}}).encode())


def run(exchange: Exchange[Result], *answers: Response | HeadwaterError) -> tuple[Result, list[Request]]:
    """Drives an exchange with answers; its result, and what was asked."""
    asked, left = [], list(answers)
    try:
        step = next(exchange)
        while True:
            if isinstance(step, Pause):
                assert step.seconds > 0
                step = exchange.send(None)
                continue
            asked.append(step)
            answer = left.pop(0)
            step = exchange.throw(answer) if isinstance(answer, HeadwaterError) else exchange.send(answer)
    except StopIteration as done:
        assert not left
        return done.value, asked


def test_an_append_is_lines_of_json() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found, [asked] = run(protocol.append("a/b", [{"n": Decimal("1.50"), "at": at}], partition=2), DONE)
    assert (found.position, found.records, found.duplicate) == (Position.parse("3"), 1, False)
    assert (asked.method, asked.path, asked.parameters) == ("POST", "/topics/a%2Fb/records", {"partition": "2"})
    assert json.loads(asked.body or b"") == {"n": "1.50", "at": "2026-01-01T00:00:00+00:00"}


def test_an_append_without_a_key_is_not_repeated() -> None:
    with pytest.raises(AnswerLost):
        run(protocol.append("t", [{}]), AnswerLost("gone"))
    with pytest.raises(ServerUnavailable):
        run(protocol.append("t", [{}]), UNREACHABLE)


def test_an_append_with_a_key_is_repeated_as_it_was() -> None:
    found, asked = run(protocol.append("t", [{"a": 1}], key="k"), AnswerLost("1"), UNREACHABLE, AnswerLost("2"), DONE)
    assert found.records == 1
    assert len(asked) == 4
    assert {request.headers["Idempotency-Key"] for request in asked} == {"k"}
    assert len({request.body for request in asked}) == 1


def test_what_may_have_happened_is_not_told_as_if_it_had_not() -> None:
    """The server was reached once, and then no more: whether it appended is not known."""
    with pytest.raises(AnswerLost):
        run(protocol.append("t", [{}], key="k"), AnswerLost("1"), *[UNREACHABLE] * (TRIES_MAX - 1))
    with pytest.raises(AnswerLost):
        run(protocol.append("t", [{}], key="k"), AnswerLost("1"), *[failed(503, "busy")] * (TRIES_MAX - 1))


def test_what_did_not_happen_is_told_at_once() -> None:
    with pytest.raises(ServerUnavailable) as error:
        run(protocol.append("t", [{}], key="k"), failed(507, "disk_full"))
    assert (error.value.status, error.value.code, error.value.hint) == (507, "disk_full", "Try.")


def test_a_refusal_has_what_the_server_said() -> None:
    with pytest.raises(RequestRefused) as error:
        run(protocol.append("t", [{}], key="k"), failed(400, "invalid_records", topic="t"))
    assert (error.value.message, error.value.status, error.value.code) == ("No.", 400, "invalid_records")
    assert error.value.details == {"topic": "t"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": {}}'])
def test_a_refusal_of_something_in_between(body: bytes) -> None:
    with pytest.raises(RequestRefused, match="413"):
        protocol.check(Response(413, body))


def test_a_read_names_its_page_and_its_position() -> None:
    where = ["a:ge:1", "b:eq:x"]
    exchange = protocol.read("v", where=where, order="-a", at_least=Position.parse("7"), timeout="1 minute")
    found, [asked] = run(exchange, PAGE)
    assert found == Rows(Position.parse("3"), [{"a": 1}], complete=False)
    assert asked.path == "/views/v"
    assert asked.parameters == {
        "where": where, "order": "-a", "limit": "100", "offset": "0", "at_least": "7", "wait": "60"
    }  # fmt: skip
    assert asked.seconds == 60


def test_the_last_page_is_complete() -> None:
    assert run(protocol.read("v", offset=1), PAGE)[0].complete


def test_a_key_has_a_part_for_each_column() -> None:
    answer = Response(200, b'{"position": "3", "key": {}, "rows": [{"a": 1}]}')
    found, [asked] = run(protocol.lookup("v", ["a/b %", 7, True]), answer)
    assert asked.path == "/views/v/rows/a%2Fb%20%25/7/true"
    assert found.rows == [{"a": 1}]


def test_a_key_that_is_not_there_is_no_error() -> None:
    found, _ = run(protocol.lookup("v", ["x"]), failed(404, "no_such_row", position="9"))
    assert found == Rows(Position.parse("9"), [], complete=True)
    with pytest.raises(RequestRefused):
        run(protocol.lookup("v", ["x"]), failed(404, "unknown_view"))


def test_a_query_is_sent_and_may_be_cut() -> None:
    answer = Response(200, b'{"position": "3", "columns": [], "rows": [], "cut": true}')
    found, [asked] = run(protocol.query("SELECT 1", limit=5), answer)
    assert (asked.method, asked.path, asked.parameters) == ("POST", "/query", {"limit": "5"})
    assert not found.complete


@pytest.mark.parametrize("call", [protocol.read, protocol.query])
def test_reads_are_repeated(call: Callable[[str], Exchange[Rows]]) -> None:
    answer = Response(200, b'{"position": "3", "rows": [], "matching": 0, "cut": false}')
    assert len(run(call("v"), AnswerLost("1"), AnswerLost("2"), answer)[1]) == 3
