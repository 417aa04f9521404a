"""The connectors: which scheme of a URL is opened by which function. Nothing else names a connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, cast

from headwater.engine.sinks.channel import Channel
from headwater.engine.sinks.port import Sink
from headwater.engine.sinks.target import Target
from headwater.engine.sources import Home, Source
from headwater.errors import UsageError
from headwater.log.port import Log

_SOURCES = {
    "postgresql": "headwater.connectors.postgres.source:open_postgres",
    "postgres": "headwater.connectors.postgres.source:open_postgres",
}
_SINKS = {
    "https": "headwater.connectors.webhooks.webhook:open_webhook",
    "http": "headwater.connectors.webhooks.webhook:open_webhook",
}

_TARGETS = {
    "Delta": "headwater.connectors.delta.target:Delta",
    "Iceberg": "headwater.connectors.iceberg.target:Iceberg",
    "OpenSearch": "headwater.connectors.opensearch.target:OpenSearch",
    "Parquet": "headwater.connectors.parquet.target:Parquet",
    "Postgres": "headwater.connectors.postgres.target.target:Postgres",
    "Redis": "headwater.connectors.redis.target:Redis",
    "Topic": "headwater.connectors.topics.target:Topic",
}
_CHANNELS = {
    "Http": "headwater.connectors.http.channel:Http",
    "Mail": "headwater.connectors.mail.channel:Mail",
    "PagerDuty": "headwater.connectors.http.pagerduty:PagerDuty",
    "Slack": "headwater.connectors.http.slack:Slack",
    "Teams": "headwater.connectors.http.teams:Teams",
}
_TARGET_SCHEMES = {"postgresql": "Postgres", "postgres": "Postgres", "redis": "Redis", "rediss": "Redis"}


def target_class(name: str) -> type[Target]:
    """The class of targets that is called so. Its driver is only imported now. Raises `KeyError`, `UsageError`."""
    module, _, called = _TARGETS[name].partition(":")
    try:
        found: type[Target] = getattr(import_module(module), called)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("headwater"):
            raise
        raise UsageError(
            f"hw.sinks.{name} needs the package {error.name!r}, which is not installed.",
            hint=f"pip install 'headwater[{name.lower()}]'",
        ) from None
    return found


def target_names() -> list[str]:
    """What classes of targets there are."""
    return sorted(_TARGETS)


def channel_class(name: str) -> type[Channel]:
    """The class of channels that is called so. Raises `KeyError`."""
    module, _, called = _CHANNELS[name].partition(":")
    found: type[Channel] = getattr(import_module(module), called)
    return found


def channel_names() -> list[str]:
    """What classes of channels there are."""
    return sorted(_CHANNELS)


def open_source(home: Home, url: str, options: Mapping[str, object]) -> Source:
    """The source that a URL and the options of its connector mean. Raises `UsageError`."""
    opened = _opener(_SOURCES, "source", home.name, url, options)(home, url, **options)
    assert isinstance(opened, Source)
    return opened


def open_sink(name: str, view: str, url: str, options: Mapping[str, object]) -> Sink | Target:
    """The sink of a view, or its target, that a URL and the options of its connector mean. Raises `UsageError`."""
    scheme = _scheme(url)
    if scheme in _TARGET_SCHEMES:
        made = target_class(_TARGET_SCHEMES[scheme])
        _check_options("sink", scheme, made, options)
        return cast("Callable[..., Target]", made)(url, **options)
    opened = _opener(_SINKS, "sink", name, url, options)(name, view, url, **options)
    assert isinstance(opened, Sink)
    return opened


def register_iceberg(log: Log, topic: str, *, catalog: str, table: str, warehouse: str | None = None) -> Any:
    """Registers a topic as an Iceberg table; see `headwater.connectors.iceberg.table.register_topic`."""
    try:
        module = import_module("headwater.connectors.iceberg.table")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Iceberg tables need the package {error.name!r}.", hint="pip install 'headwater[iceberg]'"
        ) from error
    return module.register_topic(log, topic, catalog=catalog, table=table, warehouse=warehouse)


def _opener(known: Mapping[str, str], what: str, name: str, url: str, options: Mapping[str, object]) -> Any:
    """The function for a URL, which takes the options. A driver is only imported where it is used."""
    scheme = _scheme(url)
    if scheme not in known:
        schemes = [*known, *(_TARGET_SCHEMES if what == "sink" else ())]
        raise UsageError(
            f"The URL of {what} {name!r} has no known scheme.",
            hint=f"Known schemes are {', '.join(f'{each}://' for each in schemes)}.",
        )
    module, _, function = known[scheme].partition(":")
    opener = getattr(import_module(module), function)
    _check_options(what, scheme, opener, options)
    return opener


def _scheme(url: str) -> str:
    # Not parsed any further: an error must not show what is in it.
    return url.partition("://")[0].lower() if "://" in url else ""


def _check_options(what: str, scheme: str, opener: Callable[..., Any], options: Mapping[str, object]) -> None:
    parameters = signature(opener).parameters.values()
    takes = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    checks_itself = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for option in options:
        if option not in takes and not checks_itself:
            raise UsageError(f"A {what} at {scheme}:// has no option {option!r}.", hint=f"Options: {', '.join(takes)}.")
