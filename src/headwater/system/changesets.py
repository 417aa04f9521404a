"""What a transaction has changed in a database, as bytes that make the same changes in a copy of it."""

from __future__ import annotations

import apsw

from headwater.system.sqlite import Connection, driver


class Recorder:
    """Records the changes of a transaction, in all tables that have a primary key. Begin it within the transaction."""

    def __init__(self, connection: Connection) -> None:
        self._session = apsw.Session(driver(connection), "main")
        self._session.attach()

    def changes(self) -> bytes:
        """What has changed so far; empty if nothing has."""
        return self._session.changeset()

    def close(self) -> None:
        """Ends the recording."""
        self._session.close()


def make_changes(connection: Connection, changes: bytes) -> None:
    """Changes a copy as its original was changed. Raises `Error` if it is not a copy."""
    apsw.Changeset.apply(changes, driver(connection))
