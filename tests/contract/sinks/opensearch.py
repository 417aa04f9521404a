"""OpenSearch as a system for the contract suite: one server for all tests of a process, started with the first."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar

from headwater.connectors.opensearch.target import POSITIONS, OpenSearch
from headwater.engine.sinks.target import Target
from tests.contract.sinks.keyed import REFUSED, System
from tests.opensearch.server import Server, running

INDEX = "shop"
TERM_BYTES_MAX = 32766
SETTINGS = {
    "index": {"gc_deletes": "10m"},
    "analysis": {
        "char_filter": {
            "others": {"type": "pattern_replace", "pattern": f"(?s)^(?!{REFUSED}$).*", "replacement": ""},
            "longer": {"type": "pattern_replace", "pattern": REFUSED, "replacement": "x" * (TERM_BYTES_MAX + 1)},
        },
        "analyzer": {
            "refusing": {"type": "custom", "tokenizer": "keyword", "char_filter": ["others", "longer"]},
        },
    },
}
"""An index that refuses one text: it makes a longer term of it than Lucene takes."""
MAPPING = {
    "properties": {
        "key": {"type": "long"},
        "text": {"type": "text", "fields": {"refusing": {"type": "text", "analyzer": "refusing"}}},
    }
}

_opened = ExitStack()
_servers: list[Server] = []


def server() -> Server:
    """The server, which is running."""
    if not _servers:
        _servers.append(_opened.enter_context(running()))
    return _servers[0]


def stop_opensearch() -> None:
    _opened.close()
    _servers.clear()


def call(method: str, path: str, body: object = None) -> Any:
    """What the server answers; None if there is no such thing, or not yet."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server().url + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in (404, 503):
                raise AssertionError(error.read().decode()) from None
            return None


class OpenSearchSystem(System):
    """An index and the index of positions, both missing at first."""

    transactional: ClassVar[bool] = False

    def __init__(self) -> None:
        self.lose()

    def target(self) -> Target:
        return OpenSearch(server().url, index=INDEX, mapping=MAPPING, settings=SETTINGS)

    def rows(self) -> dict[int, str]:
        found = call("GET", f"/{INDEX}/_search?size=10000")
        hits = [] if found is None else found["hits"]["hits"]
        assert all(hit["_id"] == str(hit["_source"]["key"]) for hit in hits)
        return {hit["_source"]["key"]: hit["_source"]["text"] for hit in hits}

    def put(self, key: int, text: str | None) -> None:
        if text is None:
            call("DELETE", f"/{INDEX}/_doc/{key}?refresh=true")
        else:
            call("PUT", f"/{INDEX}/_doc/{key}?refresh=true", {"key": key, "text": text})

    def lose(self) -> None:
        call("DELETE", f"/{INDEX}")
        call("DELETE", f"/{POSITIONS}")

    def back_up(self) -> Callable[[], None]:
        """An index that was deleted alone: what there is to be restored is the view's."""
        return lambda: call("DELETE", f"/{INDEX}")

    def stop(self) -> None:
        server().kill()

    def start(self) -> None:
        server().start()

    def close(self) -> None:
        self.lose()
