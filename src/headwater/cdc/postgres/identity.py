"""What a row is, if nothing else identifies it: a digest of its whole content, which the server computes alike.

"id"='1',"name"='it''s',     columns that are null are left out, so that a column that comes changes no row
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def row_texts(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Each row as one text, from its values as PostgreSQL writes them. No two rows have the same."""
    # Not by leaving nulls out: Arrow then leaves rows out in which all are null.
    parts = [_part(name, column).fill_null("") for name, column in zip(names, columns, strict=True)]
    return pc.binary_join_element_wise(*parts, "")


def quote_identifier(name: str) -> str:
    """An identifier in SQL, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def _part(name: str, texts: pa.Array) -> pa.Array:
    """`"name"='value',` for each value, as `quote_literal` quotes it."""
    content = pc.replace_substring(texts, "'", "''")
    escaped = pc.match_substring(texts, "\\")
    if pc.any(escaped).as_py():
        doubled = pc.replace_substring(content, "\\", "\\\\")
        content = pc.if_else(escaped, doubled, content)
        begin = pc.if_else(escaped, f"{quote_identifier(name)}=E'", f"{quote_identifier(name)}='")
    else:
        begin = pa.scalar(f"{quote_identifier(name)}='")
    return pc.binary_join_element_wise(begin, content, "',", "")
