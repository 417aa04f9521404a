"""Bodies of requests: read up to a limit, unpacked up to the same limit, and turned into what the log appends."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Callable

import pyarrow as pa
import pyarrow.types as pat

from headwater.errors import InvalidRecords, Refused, RejectedRecord
from headwater.model import jsonlines
from headwater.server.failures import bad_request, too_large
from headwater.server.limits import Limits

JSON = "application/json"
JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/json-lines")
ARROW = "application/vnd.apache.arrow.stream"
ENCODINGS = ("identity", "gzip")

_PLAIN = (
    pat.is_boolean, pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_string, pat.is_large_string, pat.is_binary,
    pat.is_large_binary, pat.is_date, pat.is_timestamp,
)  # fmt: skip
_WITH_GZIP_HEADER = 16 + zlib.MAX_WBITS


async def read(
    chunks: AsyncIterator[bytes], announced: str | None, limit: int, on_bytes: Callable[[int], None]
) -> bytes:
    """The body as it is sent. Raises `Refused` as soon as it is too large, and what `on_bytes` does for each part."""
    if announced is not None and announced.isdigit() and int(announced) > limit:
        raise too_large("The body", limit, "bytes")
    parts, size = list[bytes](), 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise too_large("The body", limit, "bytes")
        on_bytes(len(chunk))
        parts.append(chunk)
    return b"".join(parts)


def check_encoding(encoding: str) -> str:
    """The Content-Encoding of a body. Raises `Refused`."""
    if encoding not in ENCODINGS:
        raise Refused(
            415, "unsupported_encoding", f"Bodies come as {' or '.join(ENCODINGS)}, not as {encoding[:40]!r}."
        )
    return encoding


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its encoding. Never holds more than the limit allows, whatever was packed. Raises `Refused`."""
    if encoding == "identity":
        return body
    parts, size = list[bytes](), 0
    while body:
        stream = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)
        try:
            part = stream.decompress(body, limit + 1 - size)
        except zlib.error as error:
            raise bad_request("The body is not gzip.", "Look at its Content-Encoding.") from error
        size += len(part)
        if size > limit:
            raise too_large("The unpacked body", limit, "bytes")
        if not stream.eof:
            raise bad_request("The body ends in the middle of its gzip stream.")
        parts.append(part)
        body = stream.unused_data
    return b"".join(parts)


def rows_of(body: bytes, content_type: str, topic: str, limits: Limits) -> tuple[bytes | pa.Table, int]:
    """The records of a body, as JSON lines or an Arrow table, and how many. Raises `Refused`, `InvalidRecords`."""
    if content_type in JSON_LINES:
        lines = jsonlines.split(body)
        _check_count(len(lines), limits)
        return body, len(lines)
    if content_type == ARROW:
        table = _arrow(body, limits)
        return table, table.num_rows
    lines = elements(body)
    _check_count(len(lines), limits)
    for index, line in enumerate(lines):
        if not line.startswith(b"{"):
            got = line[:40].decode(errors="replace")
            raise InvalidRecords(topic, [RejectedRecord(index, None, "a JSON object", got, line)])
    return b"\n".join(lines), len(lines)


def elements(body: bytes) -> list[bytes]:
    """The elements of a JSON array, each in one line, digit by digit as they are written; or the one value that it is.

    Raises `Refused`.
    """
    try:
        text = body.decode().strip()
        if not text.startswith("["):
            json.loads(text)
            return [_one_line(text)]
        return _split(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not JSON: {str(error)[:200]}.") from error


def _split(text: str) -> list[bytes]:
    decoder, found = json.JSONDecoder(), list[bytes]()
    at = _skip(text, 1)
    while text[at : at + 1] != "]" or found:
        _, end = decoder.raw_decode(text, at)
        found.append(_one_line(text[at:end]))
        at = _skip(text, end)
        sign = text[at : at + 1]
        if sign == "]":
            break
        if sign != ",":
            raise ValueError(f"Expecting ',' or ']' at character {at}")
        at = _skip(text, at + 1)
    if text[at + 1 :].strip():
        raise ValueError(f"Something follows the array at character {at + 1}")
    return found


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\t", "\r"):
        at += 1
    return at


def _one_line(text: str) -> bytes:
    # A line break cannot stand inside of a string, so it means no more than a space.
    return text.replace("\n", " ").replace("\r", " ").encode()


def _arrow(body: bytes, limits: Limits) -> pa.Table:
    """A table whose buffers are all inside of the body, as large as they say, and of the kinds that a topic has."""
    try:
        # Buffers that are packed could become any size: gzip around the stream is measured, this is not.
        if any(is_packed(message) for message in _messages(body)):
            raise Refused(415, "packed_arrow", "The Arrow stream is compressed.", hint="Use Content-Encoding: gzip.")
        with pa.ipc.open_stream(body) as stream:
            for field in stream.schema:
                _check_plain(field.name, field.type)
            batches, rows = [], 0
            for batch in stream:
                rows += batch.num_rows
                _check_count(rows, limits)
                # Offsets that a client has made up must not be followed.
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, stream.schema)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise bad_request(f"The body is not an Arrow stream: {str(error)[:200]}.") from error
    return table.replace_schema_metadata(None)


def _check_plain(name: str, kind: pa.DataType) -> None:
    """Raises `Refused` for a type that can stand for more values than it has bytes."""
    if (pat.is_list(kind) or pat.is_large_list(kind)) and not pat.is_map(kind):
        _check_plain(name, kind.value_type)
    elif pat.is_map(kind):
        _check_plain(name, kind.key_type)
        _check_plain(name, kind.item_type)
    elif pat.is_struct(kind) and kind.num_fields:
        for place in range(kind.num_fields):
            _check_plain(name, kind.field(place).type)
    elif not any(test(kind) for test in _PLAIN):
        raise Refused(415, "unsupported_type", f"Column {name!r} is of type {kind}, which topics do not support.")


def _check_count(records: int, limits: Limits) -> None:
    if records > limits.append_records_max:
        raise too_large("The append", limits.append_records_max, "records")


def _messages(body: bytes) -> list[bytes]:
    return [message.metadata.to_pybytes() for message in pa.ipc.MessageReader.open_stream(body)]


# Where a flat buffer of Arrow has what: the header of a message, the batch of a dictionary, the compression of a batch.
_HEADER_TYPE, _HEADER, _DATA, _COMPRESSION = 1, 2, 1, 3
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def is_packed(metadata: bytes) -> bool:
    """Whether the buffers of an IPC message are compressed, by its metadata. Raises `ValueError` if that is damaged."""
    message = _number(metadata, 0, 4)
    kind_at = _place(metadata, message, _HEADER_TYPE)
    kind = metadata[kind_at] if kind_at else 0
    header_at = _place(metadata, message, _HEADER)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or not header_at:
        return False
    batch = header_at + _number(metadata, header_at, 4)
    if kind == _DICTIONARY_BATCH:
        data_at = _place(metadata, batch, _DATA)
        if not data_at:
            return False
        batch = data_at + _number(metadata, data_at, 4)
    return bool(_place(metadata, batch, _COMPRESSION))


def _place(metadata: bytes, table: int, field: int) -> int:
    """Where a field of a table is, 0 if it has none."""
    back = _number(metadata, table, 4)
    places = table - (back - (1 << 32) if back >= 1 << 31 else back)
    if 4 + 2 * field >= _number(metadata, places, 2):
        return 0
    offset = _number(metadata, places + 4 + 2 * field, 2)
    return table + offset if offset else 0


def _number(metadata: bytes, at: int, size: int) -> int:
    if at < 0 or at + size > len(metadata):
        raise ValueError("the metadata of a message is damaged")
    return int.from_bytes(metadata[at : at + size], "little")
