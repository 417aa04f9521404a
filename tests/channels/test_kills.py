"""A sender of messages or mail that is killed again and again: every row is told, and only what was under way again."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.channels.mailbox import Mailbox, receiving_mail, text_of
from tests.channels.posts import Posts
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import status, until

KILLS = int(os.environ.get("HEADWATER_CHANNEL_KILLS", "4"))
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(60 + 10 * KILLS)
def test_a_sender_that_is_killed_loses_no_message(view: Keyed, posts: Posts, tmp_path: Path) -> None:
    chance = random.Random(11)
    command = [sys.executable, "-m", "tests.channels.sending", str(view.directory), str(tmp_path / "log"), posts.url]
    for number in range(KILLS):
        posts.answers += [status(chance.choice((500, 503, 429)))] * chance.randrange(3)
        sender = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        try:
            assert sender.stdout is not None
            assert sender.stdout.readline() == b"running\n"
            came = len(posts.came)
            view.change({100 * number + each: f"row {each}" for each in range(20)})
            until(lambda: len(posts.came) > came)  # noqa: B023 - it is called at once
            time.sleep(chance.random() * 0.05)
        finally:
            sender.kill()
            sender.communicate(timeout=20)
    posts.answers.clear()
    sender = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        until(lambda: {(one["key"], one["text"]) for one in posts.once()} >= set(view.held.items()))
    finally:
        sender.kill()
        sender.communicate(timeout=20)
    ids = [post.id for post in posts.taken]
    assert len(set(ids)) >= len(view.held)
    assert len(ids) - len(set(ids)) <= KILLS, "only what was under way comes again"


@pytest.mark.timeout(60 + 10 * KILLS)
def test_a_sender_that_is_killed_loses_no_mail(view: Keyed, tmp_path: Path) -> None:
    chance = random.Random(12)
    with receiving_mail() as box:
        url = f"smtp://localhost:{box.port}"
        command = [sys.executable, "-m", "tests.channels.sending", str(view.directory), str(tmp_path / "log"), url]
        for number in range(KILLS):
            box.answers += [chance.choice(("451 Later", "421 Closing"))] * chance.randrange(3)
            sender = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
            try:
                assert sender.stdout is not None
                assert sender.stdout.readline() == b"running\n"
                came = len(box.mails)
                # Several mails: each change of the view is one.
                for each in range(5):
                    view.change({100 * number + each: f"row {number}/{each}"})
                until(lambda: len(box.mails) > came)  # noqa: B023 - it is called at once
                time.sleep(chance.random() * 0.05)
            finally:
                sender.kill()
                sender.communicate(timeout=20)
        box.answers.clear()
        sender = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            until(lambda: _mailed(box) >= set(view.held.values()))
        finally:
            sender.kill()
            sender.communicate(timeout=20)
    ids = box.ids()
    assert len(ids) - len(set(ids)) <= KILLS, "only what was under way comes again"
    assert len({(identity, text_of(mail)) for identity, mail in zip(ids, box.mails, strict=True)}) == len(set(ids))


def _mailed(box: Mailbox) -> set[str]:
    """The texts of all rows that were mailed."""
    return {text.strip() for mail in list(box.mails) for text in re.findall(r"text: (.*)", text_of(mail))}
