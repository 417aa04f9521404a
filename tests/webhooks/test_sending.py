"""A webhook follows its view through failures, restarts and new definitions; what arrives adds up to the view."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.connectors.webhooks import messages
from headwater.connectors.webhooks.posting import Poster
from headwater.connectors.webhooks.target import parse_target
from headwater.engine.opening import open_store
from headwater.engine.reading import Reader
from headwater.engine.relational import followers
from headwater.engine.relational import store as store_module
from headwater.engine.sinks import feed
from headwater.engine.sinks.progress import ProgressFile
from headwater.errors import Determinate, ExternalError
from tests.unit.engine.samples import COLUMNS, Driver, Unsynced, definition, zset
from tests.webhooks.receiver import Receiver, added_up, receiving, slowly, status, until
from tests.webhooks.sending import Feeding, publish, sending, webhook


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.02)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


@pytest.fixture
def driver(directory: Path) -> Iterator[Driver]:
    made = Driver(directory, storage=Unsynced())
    publish(made, ("one", 1), ("two", 2))
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def content(directory: Path) -> dict[str, int]:
    """What the view holds."""
    with Reader(directory) as reader:
        return dict(Counter(reader.read(["v"]).tables["v"]["text"].to_pylist()))


def test_only_what_changes_from_now_on_is_sent(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        publish(driver, ("one", -1), ("three", 1))
        until(lambda: made.status().deliveries == 1)
        assert receiver.rows() == {"one": -1, "three": 1}
        (message,) = receiver.messages()
        assert (message["type"], message["position"], message["sequence"]) == ("view.changes", "2", 1)
        assert (made.status().status, made.status().lag, made.status().error) == ("running", 0, None)
    assert made.said == []


def test_the_content_comes_first_if_it_is_asked_for(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url, "content"):
        until(lambda: receiver.rows() == {"one": 1, "two": 2})
        publish(driver, ("two", -1))
        until(lambda: receiver.rows() == content(directory) == {"one": 1, "two": 1})
    assert [one["type"] for one in receiver.messages()] == ["view.snapshot", "view.changes"]


@pytest.mark.parametrize("start", ["now", "content"])
def test_it_waits_for_a_view_that_is_not_there_yet(directory: Path, receiver: Receiver, start: Any) -> None:
    with sending(directory, receiver.url, start) as made:
        time.sleep(0.2)
        driver = Driver(directory, views=("other",), storage=Unsynced())
        driver.publish({"other": zset((1, 1, "x", 1))})
        time.sleep(0.2)
        assert (receiver.came, made.failure) == ([], None)
        driver.close()
        later = Driver(directory, "two", views=("v", "other"), storage=Unsynced())
        publish(later, ("one", 1), position=2)
        until(lambda: made.at() == 2)
        publish(later, ("two", 1), position=3)
        until(lambda: receiver.rows().get("two") == 1)
        later.close()


def test_what_can_not_be_taken_now_is_sent_again_in_order(directory: Path, driver: Driver, receiver: Receiver) -> None:
    receiver.answers += [status(500), status(429, Retry_After="0"), status(503), slowly(0.1, 1)]
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        for number in range(20):
            publish(driver, (f"row {number}", 1))
        until(lambda: made.at() == 21)
        assert (made.status().failures, made.status().status, made.status().error) == (3, "running", None)
    first = receiver.came[0][0]
    assert [identity for identity, _ in receiver.came[:4]] == [first] * 4
    taken = [change["row"]["text"] for _, one in receiver.came[3:] for change in one["changes"]]
    assert taken == [f"row {number}" for number in range(20)]
    sequence = [one["sequence"] for _, one in receiver.came[3:]]
    assert sequence == list(range(1, len(sequence) + 1))
    assert len(made.said) == 2
    assert "answers 500 Internal Server Error. It will be retried." in made.said[0]
    assert "is receiving deliveries again" in made.said[1]


def test_changes_that_wait_share_a_message(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
    for number in range(30):
        publish(driver, (f"row {number}", 1))
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 31)
    (message,) = receiver.messages()
    assert [change["position"] for change in message["changes"]] == [str(number) for number in range(2, 32)]


@pytest.mark.parametrize(("answer", "attempts"), [(410, 1), (404, 3), (301, 3), (401, 3)])
def test_it_pauses_with_the_reason_and_the_next_run_goes_on(
    directory: Path, driver: Driver, receiver: Receiver, answer: int, attempts: int
) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        receiver.answers += [status(answer)] * attempts
        publish(driver, ("three", 1))
        until(made.gave_up)
        state = made.status()
        assert (state.status, state.lag, state.failures) == ("paused", 1, attempts)
        assert f"answers {answer}" in str(state.error)
        assert "The next run continues with it, or `headwater sink resume`." in made.said[-1]
        publish(driver, ("four", 1))
        assert made.status().lag == 2
    assert len(receiver.came) == attempts
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 3)
    assert receiver.rows() == {"three": 1, "four": 1}
    assert len({identity for identity, _ in receiver.came[: attempts + 1]}) == 1


def test_only_refusals_in_a_row_pause_it(directory: Path, driver: Driver, receiver: Receiver) -> None:
    receiver.answers += [status(code) for code in (503, 404, 404, 503, 404, 404, 503)]
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == 1)
        assert (made.status().failures, made.status().status) == (7, "running")


def test_an_address_that_is_not_allowed_pauses_it(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
    target = parse_target(receiver.url, allow_private=True)
    barred = Poster(type(target)("https", target.host, target.port, target.path))
    publish(driver, ("three", 1))
    with sending(directory, receiver.url, poster=barred) as made:
        until(made.gave_up)
        assert "which is not a public address" in str(made.status().error)
    assert receiver.came == []


def test_a_receiver_that_is_gone_holds_up_nobody(directory: Path, driver: Driver) -> None:
    with receiving() as receiver:
        port = receiver.port
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.status().status == "retrying")
        for number in range(50):
            publish(driver, (f"row {number}", 1))
        assert made.status().lag is None
        assert "Connection refused" in str(made.status().error)
        with receiving(port=port) as back:
            until(lambda: made.at() == 51)
            assert back.rows() == content(directory)


def test_it_ends_at_once_while_a_receiver_is_slow(directory: Path, driver: Driver, receiver: Receiver) -> None:
    receiver.answers.append(slowly(25, 50))
    with sending(directory, receiver.url, "content"):
        until(lambda: receiver.came)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.status().deliveries == 1)
    assert [identity for identity, _ in receiver.came] == ["to~shop_1_1"] * 2, "it is repeated under the same id"


def test_several_senders_do_not_send_the_same(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url, "content") as first:
        until(lambda: first.at() == 1)
        with sending(directory, receiver.url, "content"):
            for number in range(10):
                publish(driver, (f"row {number}", 1))
            until(lambda: first.at() == 11)
            first.stop()
            publish(driver, ("last", 1))
            until(lambda: receiver.rows() == content(directory))
    assert len(receiver.came) == len(dict(receiver.came))


def test_a_large_change_and_a_large_view_come_in_parts(
    directory: Path, driver: Driver, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_CHANGES_MAX", 10)
    publish(driver, *((f"row {number}", 1) for number in range(100)))
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == 2)
        publish(driver, *((f"row {number}", -1) for number in range(95)))
        until(lambda: receiver.rows() == content(directory))
    kinds = Counter((one["type"], one["complete"]) for one in receiver.messages())
    assert kinds == {
        ("view.snapshot", False): 10, ("view.snapshot", True): 1, ("view.changes", False): 9, ("view.changes", True): 1,
    }  # fmt: skip


def test_a_change_of_which_a_part_has_arrived_is_gone_on_with(
    directory: Path, driver: Driver, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_CHANGES_MAX", 10)
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        receiver.answers += [status(204), status(204), status(410)]
        publish(driver, *((f"row {number}", 1) for number in range(35)))
        until(made.gave_up)
        assert made.status().lag == 15
    receiver.taken[:0] = receiver.came[:2]
    publish(driver, ("last", 1))
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 3)
    changed = [change["row"]["text"] for one in receiver.messages() for change in one["changes"]]
    assert sorted(changed) == sorted([*(f"row {number}" for number in range(35)), "last"])
    assert [one["sequence"] for one in receiver.messages()] == [1, 2, 3, 4]


def test_content_of_which_a_part_has_arrived_comes_anew(
    directory: Path, driver: Driver, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_CHANGES_MAX", 10)
    publish(driver, *((f"row {number}", 1) for number in range(35)))
    receiver.answers += [status(204), status(410)]
    with sending(directory, receiver.url, "content") as made:
        until(made.gave_up)
    receiver.taken.append(receiver.came[0])
    publish(driver, ("row 3", -1))
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == 3)
    assert receiver.rows() == content(directory)
    assert [one["part"] for one in receiver.messages()] == [1, 2, 1, 2, 3, 4]


@pytest.mark.parametrize("start", ["now", "content"])
def test_changes_that_are_not_kept_any_more_are_told_or_replaced_by_the_content(
    directory: Path, receiver: Receiver, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    driver = Driver(directory, storage=Unsynced())
    publish(driver, ("one", 1))
    with sending(directory, receiver.url, start) as made:
        until(lambda: made.at() == 1)
    # As if the application had been run without this webhook meanwhile.
    driver.store.release({})
    for number in range(30):
        publish(driver, (f"row {number}", 1))
    driver.store.collect()
    with sending(directory, receiver.url, start) as made:
        until(lambda: made.at() == 31)
        publish(driver, ("last", 1))
        until(lambda: receiver.rows().get("last") == 1)
        assert "starts over" in made.said[0]
    if start == "content":
        assert receiver.rows() == content(directory)
    else:
        gap, change = receiver.messages()
        assert (gap["type"], gap["position"], gap["changes"]) == ("view.gap", "31", [])
        assert "its changes are kept from position" in gap["reason"]
        assert change["position"] == "32"
    driver.close()


def test_a_receiver_that_was_away_for_long_gets_the_difference_in_messages_of_its_own(
    directory: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "HISTORY_BATCHES_MAX", 3)
    monkeypatch.setattr(store_module, "CHANGES_BYTES_MAX", 0)
    monkeypatch.setattr(followers, "HELD_CHANGES", 2)
    monkeypatch.setattr(messages, "MESSAGE_CHANGES_MAX", 4)
    driver = Driver(directory, storage=Unsynced())
    publish(driver, ("one", 1))
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == 1)
    for number in range(20):
        publish(driver, (f"row {number}", 1), *([(f"row {number - 10}", -1)] if number > 9 else []))
        driver.store.collect()
    came = len(receiver.came)
    # One message of the squashed changes arrives and the next one does not.
    receiver.answers += [status(204), status(204), status(410)]
    with sending(directory, receiver.url, "content") as made:
        until(made.gave_up)
    receiver.taken += receiver.came[came : came + 2]
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == driver.batch)
        assert not any("starts over" in line for line in made.said)
    assert receiver.rows() == content(directory)
    told = [(message.get("squashed", False), message["complete"]) for message in receiver.messages()[1:]]
    squashed = [place for place, (is_squashed, _) in enumerate(told) if is_squashed]
    assert len(squashed) > 1
    assert squashed == list(range(squashed[0], squashed[-1] + 1))
    assert [complete for _, complete in told].index(False) == squashed[0]
    assert told[squashed[-1]] == (True, True)
    sequences = [message["sequence"] for message in receiver.messages()]
    assert sequences == list(range(1, len(sequences) + 1))
    driver.close()


@pytest.mark.parametrize("start", ["now", "content"])
def test_deleted_state_that_is_built_anew(directory: Path, driver: Driver, receiver: Receiver, start: Any) -> None:
    publish(driver, ("three", 1), position=9)
    with sending(directory, receiver.url, start) as made:
        until(lambda: made.at() == 9)
        with open_store(directory) as store:
            store.delete_state()
        again = Driver(directory, storage=Unsynced())
        came = len(receiver.came)
        publish(again, ("one", 1), position=4)
        time.sleep(0.2)
        publish(again, ("two", 1), position=8)
        time.sleep(0.2)
        assert len(receiver.came) == came, "what was sent before is not sent again while it is built"
        publish(again, ("three", 1), position=9)
        until(lambda: made.at() == 9 and len(receiver.taken) == came + 1)
        publish(again, ("four", 1), position=10)
        until(lambda: made.at() == 10)
        assert len(made.said) == 1
    kinds = [one["type"] for one in receiver.messages()[came:]]
    if start == "content":
        assert receiver.rows() == content(directory)
        assert kinds == ["view.snapshot", "view.changes"]
    else:
        assert kinds == ["view.gap", "view.changes"]
    again.close()


def test_a_webhook_that_is_of_another_view_now_begins_with_it(
    directory: Path, driver: Driver, receiver: Receiver
) -> None:
    with sending(directory, receiver.url, "content") as made:
        until(lambda: made.at() == 1)
    other = Driver(directory, "two", views=("v", "w"), storage=Unsynced())
    other.publish({"v": zset((1, 1, "one", 1)), "w": zset((7, 7, "seven", 1))}, 2)
    with sending(directory, receiver.url, "content", view="w"):
        until(lambda: receiver.rows() == {"seven": 1})
    assert [one["sequence"] for one in receiver.messages()] == [1, 2]
    other.close()


@pytest.mark.parametrize("start", ["now", "content"])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS.append(pa.field("more", pa.int64()))])
def test_a_new_definition_comes_as_a_difference_or_as_content(
    directory: Path, driver: Driver, receiver: Receiver, columns: pa.Schema, start: Any
) -> None:
    same = columns is COLUMNS
    with sending(directory, receiver.url, start) as made:
        until(lambda: made.at() == 1)
        store = open_store(directory, storage=Unsynced())
        changed = Driver(directory, "two", defined=definition("v", columns=columns), storage=Unsynced())
        rows = zset((1, 1, "one", 1), (3, 3, "three", 1))
        if not same:
            rows = rows.add_column(3, "more", pa.array([7, 8], pa.int64()))
        changed.publish({"v": rows}, 1)
        until(lambda: receiver.came and made.status().lag == 0 and made.at() == 1)
        until(lambda: len(receiver.taken) >= (1 if start == "now" else 2))
        changed.close()
        store.close()
    if start == "content":
        assert receiver.rows() == {"one": 1, "three": 1}
    elif same:
        assert receiver.rows() == {"two": -2, "three": 1}
    else:
        assert [(one["type"], one["reason"]) for one in receiver.messages()] == [
            ("view.gap", "The columns of the view have changed.")
        ]


def test_what_changed_before_a_gap_is_sent_before_it(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
    publish(driver, ("three", 1))
    wider = definition("v", columns=COLUMNS.append(pa.field("more", pa.int64())))
    changed = Driver(directory, "two", defined=wider, storage=Unsynced())
    changed.publish({"v": zset((1, 1, "one", 1)).add_column(3, "more", pa.array([7], pa.int64()))}, 3)
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 3)
    assert [(one["type"], one["position"]) for one in receiver.messages()] == [("view.changes", "2"), ("view.gap", "3")]
    assert receiver.rows() == {"three": 1}
    changed.close()


def test_changes_that_come_to_nothing_leave_no_lag(directory: Path, driver: Driver, receiver: Receiver) -> None:
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        publish(driver, ("three", 1), ("three", -1))
        until(lambda: made.at() == 2)
        assert made.status().lag == 0
    assert receiver.came == []


def test_a_full_disk_is_waited_for(
    directory: Path, driver: Driver, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = threading.Event()
    save = ProgressFile.save

    def fail(self: ProgressFile, progress: Any) -> None:
        if full.is_set():
            raise Determinate("There is no room.")
        save(self, progress)

    monkeypatch.setattr(ProgressFile, "save", fail)
    with sending(directory, receiver.url) as made:
        until(lambda: made.at() == 1)
        full.set()
        publish(driver, ("three", 1))
        until(lambda: made.said)
        assert receiver.came == [], "what is not kept is not sent"
        full.clear()
        until(lambda: made.at() == 2)
    assert made.said == ["Sink 'to.shop' waits: There is no room."]


def test_progress_that_can_not_be_read_is_an_error(directory: Path, driver: Driver, receiver: Receiver) -> None:
    (directory / "sinks").mkdir()
    (directory / "sinks" / "to.shop.json").write_text("{}")
    made = Feeding(directory, webhook(receiver.url), name="to.shop")
    until(made.is_over)
    assert isinstance(made.failure, ExternalError)
    assert "starts over" in made.failure.hint


def test_what_arrives_adds_up_to_the_view_at_every_position(
    directory: Path, driver: Driver, receiver: Receiver
) -> None:
    held: dict[int, dict[str, int]] = {1: content(directory)}
    with sending(directory, receiver.url, "content"):
        until(lambda: receiver.taken)
        for number in range(2, 60):
            if number % 7 == 0:
                receiver.answers.append(status(500 if number % 2 else 503))
            publish(driver, (f"row {number}", 1), *([(f"row {number - 1}", -1)] if number > 2 else []))
            held[number] = content(directory)
        until(lambda: receiver.rows() == content(directory))
    total: list[dict[str, Any]] = []
    for message in receiver.messages():
        assert message["complete"]
        total.append(message)
        assert added_up(total) == held[int(message["position"])]
