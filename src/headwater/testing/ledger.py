"""The ledger of a torture: what every process was about to do, and what it was told has happened.

A process says each thing in one line to a pipe, which outlives it: "? n" before it tries its n-th commit, "! n c" once
that is acknowledged as commit c, "= n" where it finds that it continues after n, "+ n" for things it only counts, and
"x text" if it saw something that must not be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

# So much is written to a pipe at once or not at all (POSIX guarantees 512 bytes, Linux 4096).
LINE_BYTES_MAX = 512


@dataclass(slots=True)
class Account:
    """One process and those that took its place.

    What is `doubtful` may have happened, or not; `happened` counts those of which the log said later that they did.
    """

    tried: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    counted: int = 0
    happened: int = 0
    complaints: list[str] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def take(self, line: str) -> None:
        """Enters one line."""
        kind, _, rest = line.partition(" ")
        if kind == "x":
            self.complaints.append(rest)
            return
        number, *more = (int(part) for part in rest.split())
        if kind == "?":
            self.tried = max(self.tried, number)
            self._open.add(number)
        elif kind == "!":
            self._open.discard(number)
            self.doubtful.discard(number)
            self.acknowledged[number] = more[0]
        elif kind == "+":
            self.counted += number
        elif kind == "=":
            self._resume(number)
        else:
            self.complaints.append(f"a line that makes no sense: {line}")

    def close(self) -> None:
        """The process is dead."""
        self.doubtful |= self._open
        self._open.clear()

    @property
    def last(self) -> int:
        """The last number that was acknowledged."""
        return max(self.acknowledged, default=0)

    def _resume(self, number: int) -> None:
        """The log itself says which of the doubtful commits happened: those up to this number."""
        if number != self.last and number not in self.doubtful:
            self.complaints.append(f"continues after {number}; {self.last} was acknowledged, {self.doubtful} were not")
        for n in sorted(self.doubtful):
            if n <= number:
                self.acknowledged[n] = 0
                self.happened += 1
        self.doubtful.clear()


@dataclass(slots=True)
class Ledger:
    """All accounts, by the name of the process."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account())

    def of(self, role: str) -> dict[str, Account]:
        """The accounts of one role."""
        return {name: account for name, account in self.accounts.items() if name.partition("-")[0] == role}

    @property
    def complaints(self) -> list[str]:
        return [f"{name}: {text}" for name, account in self.accounts.items() for text in account.complaints]


class Channel:
    """The process's end of its pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def trying(self, number: int) -> None:
        self._send(f"? {number}")

    def acknowledged(self, number: int, commit: int) -> None:
        self._send(f"! {number} {commit}")

    def goes_on_behind(self, number: int) -> None:
        self._send(f"= {number}")

    def counted(self, number: int = 1) -> None:
        self._send(f"+ {number}")

    def complain(self, text: str) -> None:
        self._send(f"x {text}")

    def _send(self, line: str) -> None:
        os.write(self._fd, line.encode()[: LINE_BYTES_MAX - 1].replace(b"\n", b" | ") + b"\n")
