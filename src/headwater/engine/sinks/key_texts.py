"""Keys as texts, for systems that find things by one text."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from headwater.model.encoding import json_rows
from headwater.views.identity import normal


def key_texts(rows: pa.Table, key: Sequence[str]) -> list[str]:
    """The text of each row's key: a text as it is; JSON of any other value, or of several columns as a list."""
    if not rows.num_rows:
        return []
    keys = pa.table({name: normal(rows[name]) for name in key})
    if len(key) > 1:
        return [_json(list(row.values())) for row in json_rows(keys)]
    values = (row[key[0]] for row in json_rows(keys))
    return [value if isinstance(value, str) else _json(value) for value in values]


# One for all: `json.dumps` with options makes an encoder for each call.
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
