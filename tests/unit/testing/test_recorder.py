"""Recording: what was written down is what is loaded, in the order of the clock, no matter who was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from headwater.testing.history import Entry, Operation
from headwater.testing.recorder import Recorder, load_history

SENT = (Entry("orders/0", "a"), Entry("orders/1", "b", 7))
READ = (Entry("orders/0", "a", 3),)


def without_time(operation: Operation) -> tuple[object, ...]:
    return (
        operation.process, operation.type, operation.action, operation.sent, operation.read, operation.group,
        operation.covers, operation.whole, operation.at_end,
    )  # fmt: skip


def test_what_was_recorded_is_loaded_in_the_order_of_the_clock(tmp_path: Path) -> None:
    with Recorder(tmp_path, "w") as writer, Recorder(tmp_path, "a") as reader:
        writer.invoke("send", sent=SENT)
        reader.invoke("poll", group="g")
        writer.end("send", "ok", sent=SENT)
        reader.end("poll", "ok", read=READ, group="g", covers=("orders/0", "orders/1"), whole=True, at_end=True)
        writer.invoke("settle", sent=SENT, read=READ, group="g")
    history = load_history(tmp_path)
    assert [without_time(operation) for operation in history] == [
        ("w", "invoke", "send", SENT, (), None, (), False, False),
        ("a", "invoke", "poll", (), (), "g", (), False, False),
        ("w", "ok", "send", SENT, (), None, (), False, False),
        ("a", "ok", "poll", (), READ, "g", ("orders/0", "orders/1"), True, True),
        ("w", "invoke", "settle", SENT, READ, "g", (), False, False),
    ]
    times = [operation.at for operation in history]
    assert times == sorted(times)


def test_what_a_killed_process_recorded_is_there(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            Recorder(tmp_path, "w").invoke("send", sent=SENT)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    [operation] = load_history(tmp_path)
    assert (operation.process, operation.type, operation.sent) == ("w", "invoke", SENT)


def test_an_empty_folder_is_an_empty_history(tmp_path: Path) -> None:
    assert load_history(tmp_path) == []
