"""The bank of examples/bank.py on Kafka; as a program it keeps its views up to date, and says so after every batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.engine.pipeline import Progress


def bank(url: str, directory: Path, **options: Any) -> hw.App:
    """A transfer is one commit over two topics, so at every published position the total of all accounts is 0."""
    app = hw.App("bank", log=f"{url}?state={directory}", batch_rows_max=20, **options)
    app.topic("withdrawals", "account bigint, amount decimal(12,2)", partitions=2)
    app.topic("deposits", "account bigint, amount decimal(12,2)", partitions=2)
    app.view(
        "entries", "SELECT account, -amount AS amount FROM withdrawals UNION ALL SELECT account, amount FROM deposits"
    )
    app.view("balances", "SELECT account, sum(amount) AS balance FROM entries GROUP BY account")
    app.view("total", "SELECT coalesce(sum(balance), 0) AS total FROM balances")
    return app


def say(progress: Progress) -> None:
    print(progress.position, flush=True)


if __name__ == "__main__":
    with bank(sys.argv[1], Path(sys.argv[2])) as app:
        app.run(say)
