"""The numbers of the log, as distinct types so that one is never passed for another."""

from __future__ import annotations

from typing import NewType

Offset = NewType("Offset", int)
"""Orders the records of one partition; starts at 0, never reused."""

CommitNumber = NewType("CommitNumber", int)
"""Orders all commits of one embedded log; the first commit is 1, 0 is the empty log."""

Weight = NewType("Weight", int)
"""+1 a row appeared, -1 it was retracted."""
