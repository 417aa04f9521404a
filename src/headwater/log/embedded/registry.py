"""The topics of a log: created, altered and dropped in the catalog, remembered until another process changes one."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from headwater.errors import TopicExists, UnknownTopic, UsageError
from headwater.log.catalog import Catalog
from headwater.log.topic import DEAD_LETTER_SCHEMA, Topic, TopicSettings, define_topic, parse_schema
from headwater.model.evolution import check_evolution
from headwater.system.sqlite import Connection


class Registry:
    """Answers from memory while the catalog's topics have not changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: tuple[int, dict[str, Topic]] = (-1, {})

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [topic for _, topic in sorted(self._current().items())]

    def topic(self, name: str) -> Topic:
        """Raises `UnknownTopic`."""
        topics = self._current()
        if name not in topics:
            raise UnknownTopic(name, list(topics))
        return topics[name]

    def create(self, topic: Topic, *, exist_ok: bool) -> Topic:
        """Adds the topic, and its dead-letter topic if that is missing. Raises `TopicExists`."""
        before = self._known
        with self._catalog.write() as tx:
            existing = _load(tx, topic.name).get(topic.name)
            if existing is not None:
                if exist_ok and existing.same_as(topic):
                    return existing
                raise TopicExists(topic.name, same=existing.same_as(topic))
            _insert(tx, topic)
            _insert_dead_letter(tx, topic.settings)
            _changed(tx)
            version, created = _version(tx), _load(tx, topic.name)
        if before[0] == version - 1 and topic.settings.dead_letter is None:
            # Who makes thousands of topics does not read all of them again with each.
            self._known = version, {**before[1], **created}
        return self.topic(topic.name)

    def alter(
        self, name: str, *, schema: str | pa.Schema | None, partitions: int | None, settings: dict[str, object]
    ) -> Topic:
        """Changes what may change. Raises `SchemaError` or `UsageError` with the reason where it may not."""
        with self._catalog.write() as tx:
            topic = _load(tx).get(name)
            if topic is None:
                raise UnknownTopic(name, list(self._known[1]))
            if schema is not None:
                topic = _evolve(tx, topic, parse_schema(schema))
            if partitions is not None:
                topic = _add_partitions(tx, topic, partitions)
            if settings:
                topic = replace(topic, settings=replace(topic.settings, **settings).check(key=topic.key))  # type: ignore[arg-type]
                tx.execute("UPDATE topics SET settings = ? WHERE id = ?", (topic.settings.to_json(), topic.id))
                _insert_dead_letter(tx, topic.settings)
            _changed(tx)
        return self.topic(name)

    def drop(self, name: str) -> list[str]:
        """Removes the topic and everything known of it; the files that nothing names any more."""
        with self._catalog.write() as tx:
            topic = _load(tx).get(name)
            if topic is None:
                raise UnknownTopic(name, list(self._known[1]))
            for other in _load(tx).values():
                if other.settings.dead_letter == name:
                    raise UsageError(
                        f"{name!r} is the dead-letter topic of {other.name!r}.",
                        hint=f"Drop {other.name!r} first, or alter it to use another.",
                    )
            files = [row[0] for row in tx.execute("SELECT file FROM segments WHERE topic_id = ?", (topic.id,))]
            tx.execute(
                "DELETE FROM marks WHERE segment_id IN (SELECT id FROM segments WHERE topic_id = ?)", (topic.id,)
            )
            for table in ("segments", "partitions", "schemas", "claims", "losses", "followers", "missed", "trims"):
                tx.execute(f"DELETE FROM {table} WHERE topic_id = ?", (topic.id,))
            tx.execute("DELETE FROM topics WHERE id = ?", (topic.id,))
            tx.execute("INSERT OR IGNORE INTO dropped VALUES (?)", (name,))
            _changed(tx)
        return files

    def _current(self) -> dict[str, Topic]:
        with self._catalog.read() as tx:
            version = _version(tx)
            known = self._known
            if known[0] != version:
                known = self._known = version, _load(tx)
        return known[1]


def _version(tx: Connection) -> int:
    return int(tx.execute("SELECT topics_version FROM log").fetchone()[0])


def _load(tx: Connection, only: str | None = None) -> dict[str, Topic]:
    """All topics, or one."""
    schemas: dict[int, list[pa.Schema]] = {}
    given = () if only is None else (only,)
    of = "" if only is None else " WHERE topic_id = (SELECT id FROM topics WHERE name = ?)"
    for topic_id, arrow in tx.execute(f"SELECT topic_id, arrow FROM schemas{of} ORDER BY topic_id, version", given):
        schemas.setdefault(topic_id, []).append(pa.ipc.read_schema(pa.py_buffer(arrow)))
    called = "" if only is None else " WHERE name = ?"
    rows = tx.execute(f"SELECT * FROM topics{called}", given)
    return {
        name: Topic(
            topic_id, name, tuple(schemas[topic_id]), tuple(json.loads(key)), partitions, event_time,
            TopicSettings.from_json(settings), tuple(json.loads(partition_by)),
        )
        for topic_id, name, key, partitions, event_time, settings, partition_by in rows
    }  # fmt: skip


def _insert(tx: Connection, topic: Topic) -> None:
    settings, partition_by = topic.settings.to_json(), json.dumps(topic.partition_by)
    values = (topic.name, json.dumps(topic.key), topic.partitions, topic.event_time, settings, partition_by)
    columns = "name, key, partitions, event_time, settings, partition_by"
    tx.execute(f"INSERT INTO topics ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
    topic_id = tx.last_insert_rowid()
    tx.execute("INSERT INTO schemas VALUES (?, 0, ?)", (topic_id, topic.schema.serialize().to_pybytes()))
    _insert_partitions(tx, topic_id, range(topic.partitions))


def _insert_partitions(tx: Connection, topic_id: int | None, partitions: range) -> None:
    rows = [(topic_id, partition) for partition in partitions]
    tx.executemany("INSERT INTO partitions VALUES (?, ?, 0, 0, NULL, 0, 0, 0, 0)", rows)


def _insert_dead_letter(tx: Connection, settings: TopicSettings) -> None:
    name = settings.dead_letter
    if name is None:
        return
    existing = _load(tx).get(name)
    if existing is None:
        defaults = TopicSettings()
        _insert(tx, define_topic(name, DEAD_LETTER_SCHEMA, key=None, partitions=1, event_time=None, settings=defaults))
    elif not existing.schema.equals(DEAD_LETTER_SCHEMA):
        raise UsageError(
            f"Topic {name!r} cannot take dead letters: its columns are different.",
            hint="Name a topic that does not exist; it is created.",
        )


def _evolve(tx: Connection, topic: Topic, schema: pa.Schema) -> Topic:
    check_evolution(topic.schema, schema)
    if schema.equals(topic.schema, check_metadata=True):
        return topic
    arrow = schema.serialize().to_pybytes()
    tx.execute("INSERT INTO schemas VALUES (?, ?, ?)", (topic.id, topic.schema_version + 1, arrow))
    return replace(topic, schemas=(*topic.schemas, schema))


def _add_partitions(tx: Connection, topic: Topic, partitions: int) -> Topic:
    if partitions == topic.partitions:
        return topic
    if partitions < topic.partitions:
        raise UsageError(
            f"Topic {topic.name!r} has {topic.partitions} partitions; it cannot have fewer.",
            hint="Create a topic with fewer partitions and copy the records.",
        )
    if topic.division:
        kind = "has a key" if topic.key else f"is partitioned by {', '.join(topic.partition_by)}"
        raise UsageError(
            f"Topic {topic.name!r} {kind}: with more partitions the records of one value would be in two of them.",
            hint="Create a topic with more partitions and copy the records.",
        )
    changed = define_topic(
        topic.name, topic.schema, key=None, partitions=partitions, event_time=None, settings=topic.settings
    )
    tx.execute("UPDATE topics SET partitions = ? WHERE id = ?", (changed.partitions, topic.id))
    _insert_partitions(tx, topic.id, range(topic.partitions, partitions))
    for partition in range(topic.partitions, partitions):
        # A group that reads the topic already gets everything of a new partition, also if it began with the latest.
        tx.execute(
            "INSERT INTO claims SELECT DISTINCT group_name, topic_id, ?, NULL, 0, 0, NULL FROM claims "
            "WHERE topic_id = ?",
            (partition, topic.id),
        )
    return replace(topic, partitions=partitions)


def _changed(tx: Connection) -> None:
    tx.execute("UPDATE log SET topics_version = topics_version + 1")
