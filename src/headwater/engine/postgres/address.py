"""Where a view store on PostgreSQL is: a database, the schema in it, and the blobs beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headwater.errors import UsageError

SCHEMES = ("postgresql", "postgres")
NAME_BYTES_MAX = 63
"""What PostgreSQL keeps of a name."""
_OURS = ("schema", "state")
_HINT = "It looks like postgresql://user@host:5432/database, with the password in ~/.pgpass or PGPASSWORD."


@dataclass(frozen=True)
class PostgresAddress:
    """A parsed address. `str` shows no password, `text` may: it is for programs."""

    text: str = field(repr=False)
    conninfo: str = field(repr=False)
    schema: str
    state: str

    def __str__(self) -> str:
        given = conninfo_to_dict(self.conninfo)
        host = str(given.get("host") or "localhost")
        where = "" if host.startswith("/") else f"{host}:{given.get('port') or 5432}"
        return f"postgresql://{where}/{given.get('dbname') or given.get('user') or 'postgres'}?schema={self.schema}"


def parse_address(text: str) -> PostgresAddress:
    """The address that a URL names: with a `schema`, and with the address of blobs as `state`. Raises `UsageError`."""
    parts = urlsplit(text)
    query = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in query if name in _OURS}
    missing = [name for name in _OURS if not ours.get(name)]
    if missing:
        raise UsageError(
            f"The address of a view store on PostgreSQL does not name its {missing[0]}.",
            hint="An application adds what is missing: hw.App(name, store='postgresql://…', state='s3://…').",
        )
    if len(ours["schema"].encode()) > NAME_BYTES_MAX:
        raise UsageError(
            f"The name of the schema {ours['schema']!r} is too long.",
            hint=f"PostgreSQL cuts off names behind {NAME_BYTES_MAX} bytes. Shorten it.",
        )
    rest = urlencode([pair for pair in query if pair[0] not in _OURS], quote_via=quote)
    try:
        conninfo = make_conninfo(urlunsplit(parts._replace(query=rest)))
    except psycopg.ProgrammingError:
        # The driver's own message would repeat the password.
        raise UsageError("The address of the view store's database cannot be read.", hint=_HINT) from None
    return PostgresAddress(text, conninfo, ours["schema"], ours["state"])
