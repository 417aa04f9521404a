"""An index of OpenSearch as a target: one document per key, written with versions that only rise.

A delivery is noted as under way before its first document, and as arrived after its last. Versions keep a late or
repeated write from changing a newer document, and a delivery that was broken off is brought again by the next process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from headwater.connectors.opensearch.documents import Bulk, Outcome, deletes, outcome_of, upserts
from headwater.connectors.opensearch.mapping import mapping_of
from headwater.connectors.opensearch.positions import SECOND, Position, Positions
from headwater.connectors.opensearch.requests import Requests, parse_cluster
from headwater.connectors.secrets import expanded, expanded_url
from headwater.engine.sinks.key_texts import key_texts
from headwater.engine.sinks.port import CannotContinue, PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import TargetFailed, UsageError
from headwater.model.rows import parse_json_lines

POSITIONS = "headwater-sinks"
"""The index that positions are kept in, unless another one is chosen."""
PAGE_ROWS = 5000
"""How many documents are read at once."""
_SCROLL = "2m"
_SETTINGS = {"index": {"gc_deletes": "10m"}}
"""How long a deleted document's version is remembered: longer than any write may be late."""
_NEVER = 0


class OpenSearch(Target):
    """Holds a view in an index, which is created from the view's columns if it is missing.

    `mapping` and `settings` are for an index that is created: the `mappings` and `settings` of OpenSearch's API. The
    URL may have a user and a password, also as `${NAME}` of the environment; the password may be in a file. With
    `refresh`, a delivery counts as arrived when searches see it. The index belongs to the sink: documents that are not
    of the view are removed.
    """

    kind: ClassVar[str] = "opensearch"

    def __init__(
        self,
        url: str,
        *,
        index: str,
        password_file: str | Path | None = None,
        api_key: str | None = None,
        ca_certificate: str | Path | None = None,
        mapping: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        refresh: bool = True,
        positions: str = POSITIONS,
    ) -> None:
        self._cluster = parse_cluster(
            expanded_url(url),
            password_file=password_file,
            api_key=None if api_key is None else expanded(api_key),
            ca_certificate=ca_certificate,
        )
        if not index or index != index.lower() or index[0] in "-_+":
            raise UsageError(
                f"{index!r} is not a valid index name.", hint="Use lower case, beginning with a letter or a digit."
            )
        self.index, self._refresh, self._positions_index = index, refresh, positions
        self._mapping, self._settings = mapping, settings
        self._path = f"/{quote(index, safe='')}"
        self._requests: Requests | None = None
        self._assignment: Assignment | None = None
        self._positions: Positions | None = None
        self._position = Position(index, "", _NEVER)
        self._columns: pa.Schema | None = None
        self._delivery: Delivery | None = None
        self._steps: Iterator[Callable[[], object]] = iter(())
        self._step: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"OpenSearch({self.address!r})"

    @property
    def address(self) -> str:
        return f"{self._cluster}{self._path}"

    @property
    def under_way(self) -> str | None:
        return self._position.under_way

    def open(self, assignment: Assignment) -> str | None:
        self._assignment, self._delivery, self._columns = assignment, None, None
        self._requests = Requests(self._cluster)
        self._positions = Positions(self._requests, self._positions_index, assignment.owner)
        self._position = self._positions.take_over(self.index, self._uuid())
        return self._position.stamp

    def deliver(self, delivery: Delivery) -> None:
        under_way = self._position.under_way
        if not delivery.content and under_way not in (None, delivery.stamp):
            # A part of other changes is there, and those are not coming.
            raise CannotContinue
        if delivery.is_move:
            self._save(replace(self._position, stamp=delivery.stamp, under_way=None))
            return
        if self._delivery is not delivery:
            self._begin(delivery)
        while self._step is not None:
            self._step()
            self._step = next(self._steps, None)
        self._save(replace(self._position, stamp=delivery.stamp, under_way=None))

    def close(self) -> None:
        if self._requests is not None:
            self._requests.close()

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        self._ask("POST", f"{self._path}/_refresh", expected=(404,))
        for hits in self._scrolled({"_source": True}):
            lines = b"\n".join(json.dumps(hit["_source"], ensure_ascii=False).encode() for hit in hits)
            table, _ = parse_json_lines(lines, columns)
            yield table.select(columns.names)

    def check(self) -> None:
        if self._position.stamp is not None and self._uuid() != self._position.uuid:
            raise PositionChanged

    def forget(self) -> None:
        assert self._positions is not None, "it was opened"
        self._positions.forget()

    # One delivery: steps that may each be repeated

    def _begin(self, delivery: Delivery) -> None:
        # Content replaces what the index has: until all of it is there, the index is nowhere.
        stamp = None if delivery.content else self._position.stamp
        if not delivery.content and self._uuid() != self._position.uuid:
            # The index has been deleted, and maybe made again, since its position was written.
            raise CannotContinue
        self._create(delivery.upserts.schema)
        uuid = self._uuid() if delivery.content else self._position.uuid
        version = self._position.version + 1
        if delivery.repair or delivery.content:
            # What others have written has to go, and its versions are later than those that we gave.
            version += SECOND
        begun = replace(self._position, version=version, stamp=stamp, under_way=delivery.stamp, uuid=uuid)
        self._save(begun)
        self._delivery, self._steps = delivery, self._steps_of(delivery, begun.version)
        self._step = next(self._steps, None)

    def _steps_of(self, delivery: Delivery, version: int) -> Iterator[Callable[[], object]]:
        assert self._assignment is not None, "it was opened"
        key, total = self._assignment.key, delivery.upserts.num_rows
        for bulk in upserts(delivery.upserts, key, version):
            yield partial(self._put, delivery.upserts, bulk, version)
            if delivery.content:
                self._assignment.progress(bulk.places[-1] + 1, total)
        for bulk in deletes(key_texts(delivery.deletes, key), version):
            yield partial(self._bulk, bulk)
        if delivery.content:
            yield lambda: self._clean(version)
        if self._refresh:
            yield self._visible

    def _put(self, rows: pa.Table, bulk: Bulk, version: int) -> None:
        """Puts rows. Those that are refused become dead letters, and what the index had of them is removed."""
        assert self._assignment is not None, "it was opened"
        found = self._bulk(bulk)
        if found.places:
            refused = rows.take(pa.array(np.array(found.places)))
            self._assignment.refuse(refused, found.reasons)
            for gone in deletes(key_texts(refused, self._assignment.key), version):
                self._bulk(gone)

    def _bulk(self, bulk: Bulk) -> Outcome:
        assert self._requests is not None, "it was opened"
        alone = len(bulk.places) == 1
        answer = self._ask("POST", f"{self._path}/_bulk", bulk.text, expected=(413,) if alone else ())
        if answer.status == 413:
            return Outcome(bulk.places, [answer.reason])
        found = outcome_of(answer, bulk.places)
        if found.failed is not None:
            raise self._requests.failure(found.failed)
        return found

    def _clean(self, version: int) -> None:
        """Removes documents that the content does not have."""
        self._visible()
        newest = version
        for hits in self._scrolled({"_source": False, "version": True}):
            newest = max(newest, *(hit["_version"] for hit in hits))
            for bulk in deletes([hit["_id"] for hit in hits if hit["_version"] < version], version):
                self._bulk(bulk)
        if newest > version:
            # The position was lost, and the clock was set back: what is newer would never be replaced.
            self._position, self._delivery = replace(self._position, version=newest), None
            raise TargetFailed("The index has later versions than this content, which is delivered again")

    def _visible(self) -> None:
        self._ask("POST", f"{self._path}/_refresh")

    # The index

    def _create(self, columns: pa.Schema) -> None:
        """Creates the index if it is missing; a mapping that is ours gets the fields of new columns."""
        there = self._uuid() != ""
        if there and self._columns is not None and self._columns.equals(columns):
            return
        mapping = mapping_of(columns)
        if not there:
            body = {"mappings": self._mapping or mapping, "settings": self._settings or _SETTINGS}
            self._ask("PUT", self._path, body)
        elif self._mapping is None and columns.names:
            self._ask("PUT", f"{self._path}/_mapping", {"properties": mapping["properties"]})
        self._columns = columns

    def _uuid(self) -> str:
        """Names the index, or those behind an alias; empty if there is none."""
        answer = self._ask("GET", f"{self._path}/_settings", expected=(404,))
        if answer.status == 404:
            return ""
        return ",".join(sorted(each["settings"]["index"]["uuid"] for each in answer.said.values()))

    def _scrolled(self, more: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        """All documents, some at a time."""
        body = {"size": PAGE_ROWS, "sort": ["_doc"], **more}
        answer = self._ask("POST", f"{self._path}/_search", body, expected=(404,), scroll=_SCROLL)
        while answer.status != 404 and answer.said["hits"]["hits"]:
            yield answer.said["hits"]["hits"]
            answer = self._ask("POST", "/_search/scroll", {"scroll": _SCROLL, "scroll_id": answer.said["_scroll_id"]})
        if answer.status != 404:
            self._ask("DELETE", "/_search/scroll", {"scroll_id": answer.said["_scroll_id"]}, expected=(404,))

    def _ask(self, method: str, path: str, body: object = None, **more: Any) -> Any:
        assert self._requests is not None, "it was opened"
        return self._requests.ask(method, path, body, **more)

    def _save(self, position: Position) -> None:
        assert self._positions is not None, "it was opened"
        self._positions.save(position)
        self._position = position
