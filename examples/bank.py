"""A bank: a transfer is one commit over two topics, so at every published position the total of all accounts is 0.

headwater run examples/bank.py
"""

import headwater as hw

app = hw.App("bank", log="./bank-data")
app.topic("withdrawals", "account bigint, amount decimal(12,2)", partitions=2)
app.topic("deposits", "account bigint, amount decimal(12,2)", partitions=2)

app.view("entries", "SELECT account, -amount AS amount FROM withdrawals UNION ALL SELECT account, amount FROM deposits")
app.view("balances", "SELECT account, sum(amount) AS balance FROM entries GROUP BY account")
app.view("total", "SELECT coalesce(sum(balance), 0) AS total FROM balances")


def transfer(source: int, target: int, amount: str) -> hw.Position:
    """Moves money from one account to another, or not at all."""
    with app.log.commit() as commit:
        commit.append("withdrawals", [{"account": source, "amount": amount}])
        commit.append("deposits", [{"account": target, "amount": amount}])
    return commit.position
