"""Everything there is to say of one topic, for people and for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.cli.holdings import Holding, holdings
from headwater.cli.output import Column, folding, number, print_line, print_table
from headwater.cli.quantities import format_size
from headwater.log.maintenance import Finding, Segment
from headwater.log.port import Log
from headwater.log.topic import Topic
from headwater.model.ddl import format_ddl, format_type
from headwater.model.durations import format_duration


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A topic, what it holds, and what was lost of it."""

    topic: Topic
    segments: Sequence[Segment]
    holdings: Sequence[Holding]
    losses: Sequence[Finding]

    def to_json(self) -> dict[str, object]:
        return {
            **self.topic.describe(),
            "offsets": [holding.to_json() for holding in self.holdings],
            "segments": [segment_json(segment) for segment in self.segments],
            "schema_history": [format_ddl(schema) for schema in self.topic.schemas],
            "losses": [finding_json(loss) for loss in self.losses],
        }


def page_of(log: Log, topic: Topic) -> TopicPage:
    """The topic as it is now."""
    files = log.maintenance
    losses = [loss for loss in files.losses() if loss.topic == topic.name]
    return TopicPage(topic, files.segments(topic.name), holdings(log, topic.name), losses)


def segment_json(segment: Segment) -> dict[str, object]:
    """A segment for scripts; its file is relative to the log's directory, and there if the segment is local."""
    return {
        "file": segment.file,
        "partition": segment.partition,
        "first": segment.base_offset,
        "end": segment.end_offset,
        "state": segment.state,
        "records": segment.rows,
        "bytes": segment.bytes,
        "local": bool(segment.local),
        "archived": None if segment.object is None else f"{segment.archive}/{segment.object}",
    }


def finding_json(finding: Finding) -> dict[str, object]:
    """Offsets that cannot be read, for scripts."""
    return {
        "topic": finding.topic,
        "partition": finding.partition,
        "segment": finding.segment,
        "first": finding.first,
        "last": finding.last,
        "records": finding.records,
        "reason": finding.reason,
    }


def print_page(page: TopicPage) -> None:
    """The page for people."""
    print_line((page.topic.name, "bold"))
    print_line()
    print_table([Column("column"), folding("type"), folding("role")], _columns(page.topic), indent=2)
    print_line()
    print_table([Column("setting"), folding("value")], _settings(page.topic), indent=2)
    print_line()
    _print_holdings(page.holdings)
    if len(page.topic.schemas) > 1:
        print_line()
        changes = [(str(version), format_ddl(schema)) for version, schema in enumerate(page.topic.schemas)]
        print_table([number("version"), folding("schema")], changes, indent=2)
    if page.losses:
        print_line()
        print_losses(page.losses)


def print_losses(losses: Sequence[Finding]) -> None:
    """What a repair gave up."""
    rows = [(str(loss.partition), offsets_of(loss), f"{loss.records:,}", loss.reason) for loss in losses]
    print_table([number("partition"), Column("lost offsets"), number("records"), folding("reason")], rows, indent=2)


def offsets_of(finding: Finding) -> str:
    """The offsets of a finding in words."""
    if finding.records <= 0:
        return "none"
    return str(finding.first) if finding.records == 1 else f"{finding.first} to {finding.last}"


def _columns(topic: Topic) -> list[tuple[str, str, str]]:
    return [(field.name, _type(field), _role(topic, field.name)) for field in topic.schema]


def _type(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " NOT NULL")


def _role(topic: Topic, name: str) -> str:
    roles = ["key"] if name in topic.key else []
    roles += ["partition"] if name in topic.partition_by else []
    return ", ".join([*roles, "event time"] if name == topic.event_time else roles)


def _settings(topic: Topic) -> list[tuple[str, str]]:
    settings = topic.settings
    age, size = settings.retention_age, settings.retention_bytes
    hold_age, hold_size = settings.hold_age_max, settings.hold_bytes_max
    return [
        ("cleanup", settings.cleanup),
        ("retention-age", "none" if age is None else format_duration(age)),
        ("retention-bytes", "none" if size is None else format_size(size)),
        ("dead-letter", settings.dead_letter or "none"),
        ("segment-bytes-max", format_size(settings.segment_bytes_max)),
        ("segment-age-max", format_duration(settings.segment_age_max)),
        ("tombstone-grace", format_duration(settings.tombstone_grace)),
        ("archive", settings.archive or "none"),
        ("hold-age-max", "none" if hold_age is None else format_duration(hold_age)),
        ("hold-bytes-max", "none" if hold_size is None else format_size(hold_size)),
        ("views", settings.views),
    ]


def _print_holdings(held: Sequence[Holding]) -> None:
    columns = [
        number("partition"),
        number("first"),
        number("end"),
        number("records"),
        number("bytes"),
        folding("segments"),
    ]
    print_table(columns, [_holding_row(holding) for holding in held], indent=2)


def _holding_row(holding: Holding) -> tuple[str, ...]:
    offsets = (str(holding.first), str(holding.end))
    segments = ", ".join(f"{amount} {state}" for state, amount in holding.segments.items())
    return (str(holding.partition), *offsets, f"{holding.records:,}", format_size(holding.bytes), segments or "none")
