"""The examples do what they say, under random use, at every position."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from tests.spark.applications import load_example

pytestmark = pytest.mark.timeout(600)


def test_the_timeline_follows_posts_and_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    app = load_example("timeline", tmp_path, monkeypatch).app
    dice = random.Random(10)
    posts: dict[int, int] = {}
    follows: set[tuple[int, int]] = set()
    with app:
        for number in range(8):
            for step in range(5):
                if dice.random() < 0.6 or not posts:
                    posts[number * 5 + step] = author = dice.randrange(4)
                    row = {
                        "id": number * 5 + step,
                        "author": author,
                        "text": "hi",
                        "at": f"2026-01-01T10:{number:02}:00Z",
                    }
                    app.log.append("posts", [row])
                else:
                    gone = dice.choice(sorted(posts))
                    del posts[gone]
                    app.log.delete("posts", [{"id": gone}])
                pair = (dice.randrange(3), dice.randrange(4))
                row = {"follower": pair[0], "followed": pair[1]}
                if pair in follows:
                    follows.discard(pair)
                    app.log.delete("follows", [row])
                else:
                    follows.add(pair)
                    app.log.append("follows", [row])
            app.catch_up()
            shown = {
                row["user"]: sorted(post["post"] for post in row["posts"]) for row in app.read("timeline").to_pylist()
            }
            expected = {
                user: sorted(post for post, author in posts.items() if (user, author) in follows)
                for user in {follower for follower, _ in follows}
            }
            assert shown == {user: found for user, found in expected.items() if found}
        assert app.verify("timeline").equal
        assert app.verify("popular").equal


def test_the_bank_has_nothing_at_every_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    bank = load_example("bank", tmp_path, monkeypatch)
    dice = random.Random(20)
    balances = dict.fromkeys(range(5), Decimal(0))
    seen, position = 0, hw.START
    with bank.app as app:
        for _ in range(6):
            for _ in range(dice.randrange(1, 20)):
                source, target, amount = dice.randrange(5), dice.randrange(5), Decimal(dice.randrange(1, 10_000)) / 100
                balances[source] -= amount
                balances[target] += amount
                position = bank.transfer(source, target, str(amount))
            for progress in app.batches():
                seen += 1
                snapshot = app.snapshot(at_least=progress.position)
                assert snapshot.tables["total"].to_pylist() == [{"total": Decimal(0)}]
            shown = {row["account"]: row["balance"] for row in app.read("balances", at_least=position).to_pylist()}
            assert {account: balance for account, balance in shown.items() if balance} == {
                account: balance for account, balance in balances.items() if balance
            }
        assert all(app.verify(view).equal for view in app.views)
    assert seen >= 6
