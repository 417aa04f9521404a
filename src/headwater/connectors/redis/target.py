"""Keys of a Redis server as a target: a batch and its position are written by one script, which nobody sees half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, cast, get_args
from urllib.parse import urlsplit

import pyarrow as pa
import redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from headwater.connectors.redis.layout import Format, escaped, names, rows_of, values
from headwater.connectors.secrets import expanded_url, password_in
from headwater.engine.sinks.port import CannotContinue, PositionChanged
from headwater.engine.sinks.target import Assignment, Delivery, Target
from headwater.errors import TargetFailed, UsageError
from headwater.model.durations import Duration, duration_of

SCRIPT_ROWS_MAX = 10_000
"""Rows that one script writes: a delivery with more takes several, and the position moves with the last."""
CONNECT_SECONDS_MAX = 10
ANSWER_SECONDS_MAX = 60
_POSITION = "headwater:sink:"
# KEYS: the position. ARGV: epoch, stamps (expected, new, and of what is under way), expiry in milliseconds, how many
# rows are written, those (each a key, how many values, and them), and keys to delete. Answers what is in the way.
_WRITE = """
local held = redis.call('HMGET', KEYS[1], 'epoch', 'stamp')
if held[1] ~= ARGV[1] then
    -- Nobody takes over with a smaller one: that was restored from a backup.
    if held[1] and tonumber(held[1]) > tonumber(ARGV[1]) then return 'fenced' end
    return 'changed'
end
if (held[2] or '') ~= ARGV[2] then return 'changed' end
local expiry, at = ARGV[5], 7
for _ = 1, tonumber(ARGV[6]) do
    local key, count = ARGV[at], tonumber(ARGV[at + 1])
    if count == 1 then
        redis.call('SET', key, ARGV[at + 2])
    else
        redis.call('DEL', key)
        for field = at + 2, at + 1 + count, 2 do redis.call('HSET', key, ARGV[field], ARGV[field + 1]) end
    end
    if expiry ~= '' then redis.call('PEXPIRE', key, expiry) end
    at = at + 2 + count
end
for each = at, #ARGV do redis.call('DEL', ARGV[each]) end
redis.call('HSET', KEYS[1], 'stamp', ARGV[3], 'under_way', ARGV[4])
return 'written'
"""


class Redis(Target):
    """A key for each row of a view: `prefix` and the row's key, with the row as JSON or as a hash.

    All keys with the prefix belong to the sink. If there are any that no sink has put there, they are left alone unless
    `replace`. With `expire`, a row that is not written again for so long is forgotten. A cluster is not supported.
    A password may be in the URL, also as `${NAME}` of the environment, or in a file.
    """

    kind: ClassVar[str] = "redis"

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        password_file: str | Path | None = None,
        format: Format = "json",  # noqa: A002 - it is what it is called everywhere else
        expire: Duration | None = None,
        replace: bool = False,
    ) -> None:
        if not prefix:
            raise UsageError(
                "A Redis target needs a prefix.", hint='Write prefix="clv:"; all keys with this prefix belong to it.'
            )
        if format not in get_args(Format):
            raise UsageError(f"Invalid format={format!r}: expected 'json' or 'hash'.", hint="Use 'json' or 'hash'.")
        url = expanded_url(url)
        self.prefix, self.format, self.replace = prefix, format, replace
        self._expiry = "" if expire is None else str(round(duration_of("expire", expire).total_seconds() * 1000))
        try:
            parts = urlsplit(url)
            self._shown = f"{parts.scheme}://{parts.hostname or 'localhost'}:{parts.port or 6379}{parts.path} {prefix}*"
            self._pool = redis.ConnectionPool.from_url(
                url,
                socket_connect_timeout=CONNECT_SECONDS_MAX,
                socket_timeout=ANSWER_SECONDS_MAX,
                socket_keepalive=True,
                retry=Retry(NoBackoff(), 0),
                **({} if password_file is None else {"password": password_in(password_file)}),
            )
        except ValueError:
            raise UsageError(
                "The URL of the Redis target is not valid.", hint="Write it like redis://user:password@host:6379/0."
            ) from None
        self._redis = redis.Redis(connection_pool=self._pool)
        self._assignment: Assignment | None = None
        self._position, self._epoch, self._stamp, self._under_way = "", "", "", ""

    def __repr__(self) -> str:
        return f"Redis({self._shown!r})"

    @property
    def address(self) -> str:
        return self._shown

    def open(self, assignment: Assignment) -> str | None:
        self._assignment, self._position = assignment, _POSITION + assignment.owner
        with _failing():
            self._epoch = str(self._redis.hincrby(self._position, "epoch", 1))
            held = self._redis.hmget(self._position, ["stamp", "under_way"])
        self._stamp, self._under_way = (each.decode() if isinstance(each, bytes) else "" for each in held)
        return self._stamp or None

    @property
    def under_way(self) -> str | None:
        return self._under_way or None

    def deliver(self, delivery: Delivery) -> None:
        with _failing():
            if self._redis.hget(self._position, "stamp") == delivery.stamp.encode() and not delivery.content:
                # It was written, and the connection ended before that was known.
                self._stamp, self._under_way = delivery.stamp, ""
                return
            if self._under_way not in ("", delivery.stamp) and not delivery.content:
                # A part of other changes is there, and those are not coming.
                raise CannotContinue
            stale = self._stale(delivery) if delivery.content else []
            self._deliver(delivery, [*stale, *names(delivery.deletes, self.prefix)])

    def _deliver(self, delivery: Delivery, deletes: Sequence[str]) -> None:
        """Writes some rows after the other. Until the last of them, content has no position."""
        rows = delivery.upserts
        count = -(-max(rows.num_rows, len(deletes), 1) // SCRIPT_ROWS_MAX)
        meanwhile = "" if delivery.content else self._stamp
        for number in range(count):
            part = slice(number * SCRIPT_ROWS_MAX, (number + 1) * SCRIPT_ROWS_MAX)
            # A slice of a table without columns would have as many rows as are asked for.
            chunk = rows.slice(part.start, SCRIPT_ROWS_MAX) if rows.num_rows else rows
            is_last = number == count - 1
            stamp, under_way = (delivery.stamp, "") if is_last else (meanwhile, delivery.stamp)
            self._write(chunk, deletes[part], stamp, under_way)
            self._stamp, self._under_way = stamp, under_way
            if delivery.content:
                self._told().progress(min(part.stop, rows.num_rows), rows.num_rows)

    def rows(self, columns: pa.Schema) -> Iterator[pa.Table]:
        key = self._told().key
        with _failing():
            for part in self._keys():
                with self._redis.pipeline(transaction=False) as pipeline:
                    for each in part:
                        pipeline.get(each) if self.format == "json" else pipeline.hgetall(each)
                    held = pipeline.execute(raise_on_error=False)
                found = [(each.decode(errors="replace"), one) for each, one in zip(part, held, strict=True)]
                yield rows_of(found, columns, key, self.prefix)

    def check(self) -> None:
        if not self._stamp:
            return
        with _failing():
            held = self._redis.hget(self._position, "stamp")
        if held != self._stamp.encode():
            raise PositionChanged

    def forget(self) -> None:
        with _failing():
            self._redis.delete(self._position)
        self._stamp = self._under_way = ""

    def close(self) -> None:
        with suppress(redis.RedisError, OSError):
            self._pool.disconnect()

    def _told(self) -> Assignment:
        assert self._assignment is not None, "it was opened"
        return self._assignment

    def _write(self, rows: pa.Table, deletes: Sequence[str], stamp: str, under_way: str) -> None:
        arguments: list[str] = [self._epoch, self._stamp, stamp, under_way, self._expiry, str(rows.num_rows)]
        if rows.num_rows:
            keys = names(rows.select(list(self._told().key)), self.prefix)
            for name, held in zip(keys, values(rows, self.format), strict=True):
                arguments += (name, str(len(held)), *held)
        arguments += deletes
        answer = self._redis.eval(_WRITE, 1, self._position, *arguments)
        if answer == b"fenced":
            raise TargetFailed(f"Another process is writing to {self._shown}", "gone")
        if answer == b"changed":
            raise PositionChanged

    def _stale(self, delivery: Delivery) -> list[str]:
        """The keys that are there, and are not of the content. Raises `TargetFailed` if they are somebody else's."""
        found = [each.decode(errors="replace") for part in self._keys() for each in part]
        if found and not self._stamp and not self.replace and not self._redis.hexists(self._position, "ours"):
            raise TargetFailed(
                f"{self._shown} has keys that no sink wrote; remove them, or allow replace=True", "refused"
            )
        self._redis.hset(self._position, "ours", "1")
        kept = set(names(delivery.upserts.select(list(self._told().key)), self.prefix))
        return [each for each in found if each not in kept]

    def _keys(self) -> Iterator[list[bytes]]:
        """The keys with the prefix, each once, some at a time."""
        seen: set[bytes] = set()
        cursor = 0
        while True:
            cursor, part = self._redis.scan(cursor, match=escaped(self.prefix), count=1000)
            # Redis gives bytes, because the connection does not decode; the driver's types allow for both.
            fresh = [each for each in cast("list[bytes]", part) if each not in seen]
            seen.update(fresh)
            if fresh:
                yield fresh
            if cursor == 0:
                return


class _failing:  # noqa: N801 - a context manager
    """Within the block, what the driver raises is raised as what it is for a target."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.AuthenticationError | errors.NoPermissionError | errors.OutOfMemoryError):
            raise TargetFailed(_words(error), "refused") from None
        if isinstance(
            error, redis.ConnectionError | redis.TimeoutError | errors.BusyLoadingError | errors.ReadOnlyError
        ):
            raise TargetFailed(_words(error)) from None
        if isinstance(error, redis.RedisError):
            raise TargetFailed(_words(error), "refused") from None
        if isinstance(error, OSError | ValueError):
            # A connection that was closed by `close` while it was used.
            raise TargetFailed("The connection was closed") from None


def _words(error: Exception) -> str:
    return f"Redis: {' '.join(str(error).split()).rstrip('.')}"
