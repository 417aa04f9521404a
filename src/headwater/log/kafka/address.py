"""The address of a log on Kafka: its brokers, its name among the logs there, and a local directory for state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from headwater.errors import UsageError
from headwater.system.names import check_name

CATALOG, TURNS = "headwater.catalog", "headwater.turns"
"""The Kafka topics that hold the catalog of a log without a name, and the tickets of those who write to it."""

STATE = Path("data")
"""Where pipelines keep their state unless the address says otherwise."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """`servers` as Kafka writes them: host:port, separated by commas."""

    servers: str
    name: str = ""
    state: Path = STATE

    @classmethod
    def parse(cls, url: str) -> KafkaAddress:
        """Reads `kafka://host:port[,host:port]/name?state=directory`. Raises `UsageError`."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        state = Path(options.pop("state", STATE))
        name = parts.path.removeprefix("/")
        if not parts.netloc or "@" in parts.netloc or "/" in name or parts.fragment or options:
            raise UsageError(
                f"{url!r} is not the URL of a log on Kafka.",
                hint="Write it as kafka://host:port, followed by /name for one of several logs.",
            )
        return cls(parts.netloc, check_name("log", name) if name else "", state)

    @property
    def url(self) -> str:
        """The address without what only this process needs."""
        return f"kafka://{self.servers}/{self.name}" if self.name else f"kafka://{self.servers}"

    @property
    def catalog(self) -> str:
        """The Kafka topic with the commits of this log."""
        return self.topic(CATALOG)

    @property
    def turns(self) -> str:
        """The Kafka topic in which writers take their tickets."""
        return self.topic(TURNS)

    def topic(self, name: str) -> str:
        """What a topic of this log is called in Kafka."""
        return f"{self.name}.{name}" if self.name else name
