"""What the server allows: every limit by name, each of them an option of `headwater serve`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from headwater.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, rows, seconds and how many at once. Whole numbers above 0."""

    connections_max: int = 4096
    """Connections; one more is closed. There are fewer where the process may open fewer files."""
    # All of this machine, and all behind a proxy, are one address: it has to have room for `streams_max` streams and
    # for as many requests beside them, and it leaves half of all connections to others.
    connections_per_address_max: int = 2048
    """Connections of one address, or of one IPv6 network (/64); one more is closed."""
    header_seconds_max: int = 10
    """How long a connection may take for a TLS handshake, and then for the headers of a request."""
    header_bytes_max: int = 64 << 10
    """Of the headers of a request."""
    body_bytes_max: int = 32 << 20
    """Of a request's body, as it is sent and after decompression."""
    request_bytes_max: int = 1 << 20
    """Of a body that has no records: a query, or a token."""
    body_seconds_max: int = 60
    """How long a body may take to arrive."""
    bodies_bytes_max: int = 256 << 20
    """Bodies in memory, both those still arriving and those being appended; one more is answered with 429."""
    answers_bytes_max: int = 256 << 20
    """Answers in memory that their clients have not taken yet; beyond that, clients that take nothing are dropped."""
    append_records_max: int = 100_000
    """Of one append."""
    appends_waiting_max: int = 64
    """Appends that wait for the disk, each with a body that has arrived; one more is answered with 429."""
    wait_seconds_max: int = 30
    """How long a read may wait for a position."""
    page_rows_max: int = 10_000
    """Of one page of a topic or of a view."""
    scan_records_max: int = 100_000
    """Records of a partition that one page may look through for those that match."""
    query_seconds_max: int = 10
    """How long a query may take."""
    query_rows_max: int = 10_000
    """Of a query's answer; one with more rows ends there, and says so."""
    query_answer_bytes_max: int = 64 << 20
    """Of a query's answer; a larger one is refused."""
    query_bytes_max: int = 512 << 20
    """Memory of one query's joins, sorts, aggregates and functions."""
    query_views_bytes_max: int = 2 << 30
    """Memory for the content of the views and topics that one query reads."""
    query_cpu_seconds_max: int = 20
    """Processor time of one query, of all its threads together."""
    query_threads_max: int = 2
    """Threads of one query."""
    queries_max: int = 4
    """Queries at once; one more is answered with 429."""
    streams_max: int = 1000
    """Open streams of events; one more is answered with 429."""
    stream_stall_seconds_max: int = 30
    """A reader of a stream or of an answer that takes nothing for this long is dropped."""
    ring_events_max: int = 1000
    """How many changes of a view are kept in memory for its followers, as long as they fit the next limit."""
    ring_bytes_max: int = 16 << 20
    """Changes of a view that are kept in memory for its followers; a follower that is further behind is dropped."""
    history_seconds_max: int = 3600
    """How long the samples for charts are kept in memory."""
    keys_kept_seconds: int = 24 * 3600
    """How long an idempotency key is remembered."""

    def with_options(self, options: Iterable[str]) -> Limits:
        """The limits with some changed, each given as NAME=VALUE. Raises `UsageError`."""
        known = [one.name for one in fields(self)]
        changed = {}
        for option in options:
            name, equals, value = option.partition("=")
            if name not in known or not equals:
                raise UsageError(f"{option!r} is not a limit.", hint=f"Write NAME=VALUE; names: {', '.join(known)}.")
            if not value.isascii() or not value.isdigit() or int(value) < 1:
                raise UsageError(f"{name} must be a positive integer, not {value!r}.")
            changed[name] = int(value)
        return replace(self, **changed)
