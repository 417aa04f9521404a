"""Opening an Iceberg catalog: an SQLite file, a REST service, or one that pyiceberg's own configuration names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog

from headwater.errors import UsageError
from headwater.system.objects.port import parse_store_url

NAME = "default"
"""What the catalog is called, as pyiceberg itself calls it: an SQLite catalog keeps that with each table."""
_HINT = "Use sqlite:///path/catalog.db, the URL of a REST catalog, or a name of pyiceberg's configuration."


def open_catalog(address: str, *, warehouse: str | None, archive: str | None) -> Catalog:
    """The catalog. `warehouse` is where tables keep their metadata; `archive`, where the files of the topic are.

    Raises `UsageError` if the address is none.
    """
    properties = _store_properties(archive)
    if warehouse is not None:
        properties["warehouse"] = warehouse if "://" in warehouse else f"file://{Path(warehouse).absolute()}"
    scheme, separator, rest = address.partition("://")
    if not separator:
        return _configured(address, properties)
    if scheme == "sqlite":
        path = Path(rest.removeprefix("/")).absolute() if not rest.startswith("//") else Path(rest[1:])
        path.parent.mkdir(parents=True, exist_ok=True)
        properties.setdefault("warehouse", f"file://{path.parent / 'warehouse'}")
        return load_catalog(NAME, type="sql", uri=f"sqlite:///{path}", **properties)
    if scheme in ("http", "https"):
        return load_catalog(NAME, type="rest", uri=address, **properties)
    raise UsageError(f"There is no Iceberg catalog with the scheme {scheme!r}.", hint=_HINT)


def _configured(name: str, properties: dict[str, str]) -> Catalog:
    try:
        return load_catalog(name, **properties)
    except ValueError as error:
        raise UsageError(f"There is no Iceberg catalog {name!r}.", hint=_HINT) from error


def _store_properties(archive: str | None) -> dict[str, str]:
    """How the files are reached. Credentials come from the environment, as they do for the archive."""
    options = dict(parse_store_url(archive).options) if archive is not None else {}
    properties = {}
    if endpoint := options.get("endpoint_override"):
        scheme = options.get("scheme", "https")
        properties["s3.endpoint"] = endpoint if urlsplit(endpoint).netloc else f"{scheme}://{endpoint}"
    if region := options.get("region"):
        properties["s3.region"] = region
    return properties
