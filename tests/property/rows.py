"""What the state machine puts into topics: schemas, how they evolve, and rows with few keys and strange values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.types as pat
from hypothesis import strategies as st

from headwater.model.hashing import hash_columns, partition_of
from tests.property.model import Row, TopicModel, shown

KINDS: dict[str, tuple[pa.Schema, tuple[str, ...]]] = {
    "keyed": (
        pa.schema([("id", pa.int32()), ("text", pa.string()), ("amount", pa.decimal128(5, 2)), ("rate", pa.float32())]),
        ("id",),
    ),
    "pair": (
        pa.schema([("name", pa.string()), ("number", pa.int16()), ("raw", pa.binary()), ("good", pa.bool_())]),
        ("name", "number"),
    ),
    "rates": (pa.schema([("rate", pa.float64()), ("day", pa.date32())]), ("rate",)),
    "plain": (
        pa.schema(
            [
                ("id", pa.int32()),
                ("tags", pa.list_(pa.int32())),
                ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
                ("counts", pa.map_(pa.string(), pa.int32())),
                ("at", pa.timestamp("us", "UTC")),
            ]
        ),
        (),
    ),
}
KEYS: dict[str, list[object]] = {
    "id": [0, 1, 2, 3],
    "name": ["", "a", "ä", "a\0", "🌊"],
    "number": [0, 1, -1],
    "rate": [0.0, -0.0, 1.5, float("nan"), float("inf"), 2.0**60],
}
HEADERS: list[object] = [{}, {"who": "me"}, {"": "", "ä": "🌊"}]
ADDED: list[pa.DataType] = [
    pa.int16(),
    pa.string(),
    pa.date32(),
    pa.decimal128(5, 2),
    pa.map_(pa.string(), pa.int32()),
    pa.struct([("x", pa.int32())]),
]
COLUMNS_MAX = 8


def widened(arrow: pa.DataType) -> list[pa.DataType]:
    """The types that a column may go over to."""
    if arrow == pa.int16():
        return [pa.int32(), pa.int64(), pa.float64()]
    if arrow == pa.int32():
        return [pa.int64(), pa.float64(), pa.decimal128(20, 1)]
    if arrow == pa.float32():
        return [pa.float64()]
    if arrow == pa.date32():
        return [pa.timestamp("us")]
    if pat.is_decimal(arrow) and arrow.precision <= 30:
        return [pa.decimal128(arrow.precision + 4, arrow.scale + 2)]
    if pat.is_map(arrow):
        return [pa.map_(arrow.key_type, item) for item in widened(arrow.item_type)]
    if pat.is_list(arrow):
        return [pa.list_(element) for element in widened(arrow.value_type)]
    if pat.is_struct(arrow) and arrow.num_fields < 3:
        first, *others = arrow
        wider = [pa.struct([first.with_type(other), *others]) for other in widened(first.type)]
        return [*wider, pa.struct([*arrow, (f"added{arrow.num_fields}", pa.int16())])]
    return []


def evolutions(schema: pa.Schema) -> list[pa.Schema]:
    """Every schema that is one allowed step away."""
    found = [
        schema.set(index, field.with_type(wider)) for index, field in enumerate(schema) for wider in widened(field.type)
    ]
    if len(schema) < COLUMNS_MAX:
        name = f"added{len(schema)}"
        found += [schema.append(pa.field(name, arrow)) for arrow in ADDED]
        found += [schema.insert(0, pa.field(name, arrow)) for arrow in ADDED]
    return found


def refusals(schema: pa.Schema) -> list[pa.Schema]:
    """Schemas that no topic of this schema may go over to."""
    changed = [schema.set(0, pa.field("renamed", schema.field(0).type)), schema.remove(0)]
    return [*changed, schema.append(pa.field("added", pa.int32(), nullable=False))]


def pool(arrow: pa.DataType) -> list[object]:
    """Some values of a type: the smallest, the largest, the empty, the strange.

    A choice from a few costs hypothesis little, so that a run has room for many steps.
    """
    if pat.is_integer(arrow):
        limit = 1 << (arrow.bit_width - 1)
        return [0, 1, -limit, limit - 1]
    if pat.is_floating(arrow):
        return [0.0, -0.5, float("inf"), float("nan"), 2.0**100]
    if pat.is_decimal(arrow):
        return [Decimal(f"{sign}{digits}e-{arrow.scale}") for sign in "+-" for digits in (0, "9" * arrow.precision)]
    if pat.is_struct(arrow):
        pools = [(field.name, [*pool(field.type), None]) for field in arrow]
        return [{}, *({name: values[turn % len(values)] for name, values in pools} for turn in range(4))]
    if pat.is_map(arrow):
        first, second, third = ["", "ä", "a"] if pat.is_string(arrow.key_type) else pool(arrow.key_type)[:3]
        return [{}, dict(zip([first, second], pool(arrow.item_type), strict=False)), {third: None}]
    if pat.is_list(arrow):
        return [[], [None, *pool(arrow.value_type)]]
    if pat.is_timestamp(arrow):
        zone = UTC if arrow.tz else None
        return [datetime(1, 1, 1, tzinfo=zone), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone)]
    return _PLAIN[arrow]


_PLAIN: dict[pa.DataType, list[object]] = {
    pa.string(): ["", "a", "ä", "\0", "🌊 wave", "long " * 50],
    pa.binary(): [b"", b"\x00\xff", b"long" * 50],
    pa.bool_(): [True, False],
    pa.date32(): [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
}


def choices(topic: TopicModel) -> tuple[dict[str, list[object]], dict[str, list[object]]]:
    """What a row of the topic must have, and what it may have: some values for each column."""
    required = {name: KEYS[name] for name in topic.key}
    if not topic.key:
        required["_partition"] = list(range(len(topic.partitions)))
    optional = {field.name: [None, *pool(field.type)] for field in topic.schema if field.name not in topic.key}
    return required, {**optional, "_headers": HEADERS}


def rows(topic: TopicModel) -> st.SearchStrategy[dict[str, object]]:
    """A row in the topic's current schema; columns that are no key may be missing or null."""
    required, optional = choices(topic)
    return st.fixed_dictionaries(
        {name: st.sampled_from(values) for name, values in required.items()},
        optional={name: st.sampled_from(values) for name, values in optional.items()},
    )


def random_row(random: Random, topic: TopicModel) -> dict[str, object]:
    """As `rows`, from a seed: for writing much at once."""
    required, optional = choices(topic)
    row = {name: random.choice(values) for name, values in required.items()}
    return row | {name: random.choice(values) for name, values in optional.items() if random.random() < 0.5}


def keys(topic: TopicModel) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({name: st.sampled_from(KEYS[name]) for name in topic.key})


def partition_for(topic: TopicModel, row: Row) -> int:
    """Where a record goes: the hash is stable, which other tests see to."""
    if not topic.key:
        partition = row["_partition"]
        assert isinstance(partition, int)
        return partition
    columns = [pa.array([row[name]], topic.schema.field(name).type) for name in topic.key]
    return int(partition_of(hash_columns(columns), len(topic.partitions))[0])


def to_arrow(topic: TopicModel, given: Sequence[Mapping[str, object]]) -> pa.Table:
    """The same rows as an Arrow table."""
    columns: dict[str, pa.Array] = {}
    for field in topic.schema:
        columns[field.name] = pa.array([shown(row.get(field.name), field.type) for row in given], field.type)
    if not topic.key:
        columns["_partition"] = pa.array([row["_partition"] for row in given], pa.int32())
    if any("_headers" in row for row in given):
        headers = [list(dict(row.get("_headers") or {}).items()) for row in given]  # type: ignore[call-overload]
        columns["_headers"] = pa.array(headers, pa.map_(pa.string(), pa.string()))
    return pa.table(columns)
