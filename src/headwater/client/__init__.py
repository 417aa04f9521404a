"""A client of headwater's HTTP API: append, read, look up, query and follow, with or without asyncio."""

from headwater.client.answers import Appended, Change, Rows
from headwater.client.asynchronous import AsyncClient
from headwater.client.synchronous import Client

__all__ = ["Appended", "AsyncClient", "Change", "Client", "Rows"]
