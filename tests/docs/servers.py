"""The servers that pages about targets need, and the environment variables in which their examples expect the URLs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

from tests.contract.sinks.redis import Server as RedisServer
from tests.opensearch.server import running
from tests.postgres.servers import Server, chosen_versions

Environment = Mapping[str, str]


def environment_of(page: str) -> AbstractContextManager[Environment]:
    """What a page needs, for as long as its examples run."""
    opened = _SERVERS.get(page)
    return nullcontext({}) if opened is None else opened()


@contextmanager
def _postgres() -> Iterator[Environment]:
    with tempfile.TemporaryDirectory(prefix="hw") as directory:
        server = Server.create(chosen_versions()[0], Path(directory))
        server.start()
        try:
            with server.database() as database:
                yield {"ADMIN_URL": server.url(database), "REPORTS_URL": server.url(database, "reporter")}
        finally:
            server.stop()


@contextmanager
def _redis() -> Iterator[Environment]:
    with closing(RedisServer()) as server:
        user = "cache:taken%20from%20your%20secrets@"
        yield {"ADMIN_URL": server.url, "CACHE_URL": server.url.replace("redis://", f"redis://{user}")}


@contextmanager
def _opensearch() -> Iterator[Environment]:
    with running() as server:
        yield {"SEARCH_URL": server.url}


_SERVERS = {
    "docs/guides/sinks/opensearch.md": _opensearch,
    "docs/guides/sinks/postgresql.md": _postgres,
    "docs/guides/sinks/redis.md": _redis,
}
