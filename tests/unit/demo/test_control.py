"""The supervisor is asked through a socket and answers, or is seen to be gone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headwater.demo.control import Listener, ask
from headwater.errors import Determinate


def test_a_question_is_answered(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "socket")

    def answer() -> None:
        for _ in range(2):
            asked = listener.requests.get(timeout=10)
            wrong = asked.request["action"] == "wrong"
            asked.answer({"error": "It cannot be done."} if wrong else {"got": asked.request["action"]})

    thread = threading.Thread(target=answer)
    thread.start()
    assert ask(tmp_path / "socket", action="status") == {"got": "status"}
    with pytest.raises(Determinate, match="It cannot be done"):
        ask(tmp_path / "socket", action="wrong")
    thread.join()
    with pytest.raises(Determinate, match="does not answer"):
        ask(tmp_path / "socket", seconds=0.1, action="status")
    listener.close()
    with pytest.raises(Determinate, match="does not answer"):
        ask(tmp_path / "socket", action="status")


def test_only_its_owner_may_ask(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "socket")
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    listener.close()
