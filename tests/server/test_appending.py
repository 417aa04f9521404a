"""Records go in over HTTP, durable when they are answered, once per key, and each that does not fit is named."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import headwater as hw
from headwater.log.embedded.position import commit_of
from headwater.server.records import forget_keys
from tests.server.shop import Shop, opened


def urls(shop: Shop) -> list[str]:
    return [str(record.value["url"]) for record in shop.app.log.read("clicks") if record.value]


def post(shop: Shop, body: bytes, kind: str, **headers: str) -> httpx.Response:
    return shop.client.post("/topics/clicks/records", content=body, headers={"Content-Type": kind, **headers})


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'[{"user": 1, "url": "a"}, {"user": 2, "url": "b"}]'),
        ("application/x-ndjson", b'{"user": 1, "url": "a"}\n{"user": 2, "url": "b"}\n'),
        ("application/json; charset=utf-8", b'[{"user": 1, "url": "a"},\n{"user": 2, "url": "b"}]'),
        ("application/vnd.apache.arrow.stream", arrow(pa.table({"user": [1, 2], "url": ["a", "b"]}))),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_records_are_appended(shop: Shop, kind: str, body: bytes, packed: bool) -> None:
    headers = {"Content-Encoding": "gzip"} if packed else {}
    answered = post(shop, gzip.compress(body) if packed else body, kind, **headers)
    assert answered.status_code == 200
    assert answered.json() == {"position": "1", "records": 2, "dead_letters": 0, "duplicate": False}
    assert answered.headers["Headwater-Position"] == "1"
    assert urls(shop) == ["a", "b"]
    with hw.open(shop.app.log.url, upkeep=False) as other:
        assert commit_of(other.position()) == 1


def test_one_object_is_one_record(shop: Shop) -> None:
    assert shop.client.post("/topics/clicks/records", json={"user": 1, "url": "a"}).json()["records"] == 1
    assert shop.client.post("/topics/clicks/records", json=[]).json()["records"] == 0
    assert urls(shop) == ["a"]


def test_a_record_that_does_not_fit_is_named_and_nothing_is_appended(shop: Shop) -> None:
    answered = shop.client.post("/topics/clicks/records", json=[{"user": 1}, {"user": "x"}, {"nope": 1}])
    assert answered.status_code == 422
    error = answered.json()["error"]
    assert (error["code"], error["topic"], error["rejected"]) == ("invalid_records", "clicks", 2)
    assert [(one["index"], one["field"]) for one in error["records"]] == [(1, "user"), (2, "nope")]
    assert urls(shop) == []


def test_what_does_not_fit_goes_to_the_dead_letters_where_there_are_any(shop: Shop) -> None:
    answered = shop.client.post("/topics/orders/records", json=[{"id": 1}, {"id": "x"}, {"id": 2, "amount": 1.25}])
    assert answered.json() == {"position": "1", "records": 2, "dead_letters": 1, "duplicate": False}


def test_a_row_is_deleted_by_its_key(shop: Shop) -> None:
    shop.append({"id": 1, "country": "DE"}, topic="orders")
    shop.append({"id": 1, "_deleted": True}, topic="orders")
    assert shop.app.log.table("orders").num_rows == 0


def test_the_same_key_is_appended_once(shop: Shop) -> None:
    body, headers = {"user": 1, "url": "a"}, {"Idempotency-Key": "k 1"}
    first = shop.client.post("/topics/clicks/records", json=body, headers=headers)
    shop.append({"user": 2, "url": "b"})
    again = shop.client.post("/topics/clicks/records", json=body, headers=headers)
    assert again.status_code == 200
    assert again.json() == {**first.json(), "duplicate": True}
    assert urls(shop) == ["a", "b"]
    other = shop.client.post("/topics/clicks/records", json={"user": 9}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "key_reused")
    elsewhere = shop.client.post("/topics/orders/records", json={"id": 1}, headers=headers)
    assert elsewhere.json()["duplicate"] is False


def test_the_same_key_gets_the_same_answer_about_dead_letters(shop: Shop) -> None:
    rows, headers = [{"id": 1}, {"id": "x"}], {"Idempotency-Key": "k"}
    first, again = (shop.client.post("/topics/orders/records", json=rows, headers=headers).json() for _ in range(2))
    assert first == {"position": "1", "records": 1, "dead_letters": 1, "duplicate": False}
    assert again == {**first, "duplicate": True}


def test_the_same_key_at_the_same_time_is_appended_once(shop: Shop) -> None:
    positions: list[str] = []

    def send() -> None:
        answered = httpx.post(
            f"{shop.server.url}/topics/clicks/records", json={"url": "a"}, headers={"Idempotency-Key": "k"}, timeout=30
        )
        positions.append(answered.json()["position"])

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert urls(shop) == ["a"]
    assert positions == ["1"] * 16


def test_a_key_is_known_after_the_server_was_started_anew(tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "k"}
    for duplicate in (False, True):
        with opened(tmp_path) as shop:
            answered = shop.client.post("/topics/clicks/records", json={"url": "a"}, headers=headers)
            assert answered.json() == {"position": "1", "records": 1, "dead_letters": 0, "duplicate": duplicate}
            assert urls(shop) == ["a"]


def test_old_keys_are_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"keys_kept_seconds": 1}) as shop:
        headers = {"Idempotency-Key": "k"}
        shop.client.post("/topics/clicks/records", json={"url": "a"}, headers=headers)
        assert forget_keys(shop.service) == 0
        (held,) = shop.app.log.bookmarks.beginning("http.")
        with shop.app.log.commit() as commit:
            commit.bookmark(held.name, {"body": "", "records": 1, "at": 0})
        assert forget_keys(shop.service) == 1
        again = shop.client.post("/topics/clicks/records", json={"url": "a"}, headers=headers)
        assert again.json()["duplicate"] is False


@pytest.mark.parametrize(
    ("path", "kind", "body", "status", "code"),
    [
        ("/topics/nope/records", "application/json", b"{}", 404, "unknown_topic"),
        ("/topics/clicks/records", "text/plain", b"{}", 415, "unsupported_media_type"),
        ("/topics/clicks/records", "", b"{}", 415, "unsupported_media_type"),
        ("/topics/clicks/records", "application/json", b"{", 400, "bad_request"),
        ("/topics/clicks/records", "application/json", b"7", 422, "invalid_records"),
        ("/topics/clicks/records", "application/vnd.apache.arrow.stream", b"x", 400, "bad_request"),
        ("/topics/clicks/records?partition=7", "application/json", b"{}", 400, "usage"),
        ("/topics/clicks/records?nope=7", "application/json", b"{}", 400, "bad_request"),
    ],
)
def test_what_can_not_be_appended(shop: Shop, path: str, kind: str, body: bytes, status: int, code: str) -> None:
    answered = shop.client.post(path, content=body, headers={"Content-Type": kind} if kind else {})
    assert (answered.status_code, answered.json()["error"]["code"]) == (status, code)
    assert answered.json()["error"].keys() >= {"code", "message", "hint"}


def test_limits(tmp_path: Path) -> None:
    limits = {"body_bytes_max": 1000, "append_records_max": 10, "appends_waiting_max": 1}
    with opened(tmp_path, limits=limits) as shop:
        large = b'{"url": "%s"}' % (b"x" * 1000)
        assert post(shop, large, "application/json").status_code == 413
        assert post(shop, gzip.compress(large), "application/json", **{"Content-Encoding": "gzip"}).status_code == 413
        assert post(shop, b"{}\n" * 11, "application/x-ndjson").status_code == 413
        assert post(shop, b"{}", "application/json", **{"Content-Encoding": "br"}).status_code == 415
        shop.service.appends = 1
        answered = post(shop, b"{}", "application/json")
        assert (answered.status_code, answered.headers["Retry-After"]) == (429, "1")
        shop.service.appends = 0
        assert post(shop, b"{}", "application/json").status_code == 200
