"""The view store in a schema of a PostgreSQL database; its blobs are wherever its address says."""

from __future__ import annotations

from headwater.engine.blobs import Blobs
from headwater.engine.postgres.address import PostgresAddress
from headwater.engine.postgres.database import PostgresDatabase, create_database, drop_tables, find_database
from headwater.engine.postgres.waking import PostgresWaker
from headwater.engine.relational.store import RelationalViewStore
from headwater.errors import StoreOutdated, StoreUnusable
from headwater.system.clock import Clock


class PostgresViewStore(RelationalViewStore):
    """The store at an address. With `create` its schema and tables are made if they are missing."""

    def __init__(
        self, address: PostgresAddress, blobs: Blobs, *, create: bool = True, clock: Clock | None = None
    ) -> None:
        self._address = address
        super().__init__(address.schema, blobs, is_driver=create, clock=clock)

    @property
    def address(self) -> str:
        return self._address.text

    def _create_database(self) -> PostgresDatabase:
        return create_database(self._address)

    def _find_database(self) -> PostgresDatabase | None:
        return find_database(self._address)

    def _open_waker(self) -> PostgresWaker:
        return PostgresWaker(self._address)


def delete_postgres_state(address: PostgresAddress, blobs: Blobs) -> None:
    """Deletes the state at an address, even if its tables are damaged or of another version."""
    try:
        with PostgresViewStore(address, blobs) as store:
            store.delete_state()
    except (StoreUnusable, StoreOutdated) as error:
        if isinstance(error, StoreUnusable) and not error.damaged:
            raise
        drop_tables(address)
        for blob in list(blobs.list()):
            blobs.delete(blob.name)
