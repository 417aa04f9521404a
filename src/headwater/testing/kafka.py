"""Apache Kafka for tests and benchmarks, fetched once from Maven Central: brokers on free ports of this machine."""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

VERSION = "4.1.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
JARS = CACHE / f"kafka-{VERSION}"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
START_SECONDS_MAX = 100.0
"""It takes about 4 s, and minutes on a machine with too much to do."""
_JAVA = ("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_PROJECT = f"""
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headwater</groupId>
  <artifactId>test-kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""
_SETTINGS = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
default.replication.factor={copies}
min.insync.replicas={least}
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={least}
transaction.state.log.num.partitions=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={least}
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
controlled.shutdown.enable=false
num.network.threads=2
num.io.threads=2
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
"""


def fetch() -> Path:
    """The folder with Kafka and what it needs, filled when it is asked for first.

    Raises `LookupError` where Maven is missing or cannot fetch it.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{JARS.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if JARS.is_dir():
            return JARS
        if shutil.which("mvn") is None:
            raise LookupError("Kafka is fetched by Maven, which is missing: sudo apt-get install maven")
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            project, jars = Path(directory) / "pom.xml", Path(directory) / "jars"
            project.write_text(_PROJECT)
            command = ["mvn", "-q", "-B", "-f", str(project), PLUGIN, "-DincludeScope=runtime"]
            made = subprocess.run([*command, f"-DoutputDirectory={jars}"], check=False, capture_output=True, text=True)
            if made.returncode or not jars.is_dir():
                raise LookupError(f"Maven cannot fetch Kafka: {made.stdout[-500:]}")
            jars.rename(JARS)
    return JARS


class Broker:
    """One node. It keeps its data and its port when it is stopped or killed, and started again."""

    def __init__(self, directory: Path, settings: str, port: int) -> None:
        self._directory, self.port = directory, port
        directory.mkdir(parents=True)
        (directory / "server.properties").write_text(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "it is not running"
        return self._process.pid

    def launch(self) -> None:
        """Starts it, and does not wait."""
        with (self._directory / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", f"{fetch()}/*", "kafka.Kafka", "server.properties"],
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                cwd=self._directory,
            )

    def wait(self) -> None:
        """Returns when it takes connections."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _listens(self.port):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Kafka did not start:\n{(self._directory / 'said').read_text()[-3000:]}")
            time.sleep(0.1)

    def start(self) -> None:
        """Starts it, and returns when it takes connections."""
        self.launch()
        self.wait()

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class KafkaCluster:
    """One node or several, each broker and controller. Topics have a copy on each node, up to three."""

    def __init__(self, directory: Path, nodes: int = 1) -> None:
        with ExitStack() as held:
            ports = [held.enter_context(_held_port()) for _ in range(2 * nodes)]
        cluster, copies = _identifier(), min(3, nodes)
        voters = ",".join(f"{node + 1}@127.0.0.1:{ports[nodes + node]}" for node in range(nodes))
        self.brokers: list[Broker] = []
        for node in range(nodes):
            home = directory / f"node-{node + 1}"
            settings = _SETTINGS.format(
                node=node + 1, voters=voters, port=ports[node], controller=ports[nodes + node], data=home / "data",
                copies=copies, least=min(2, copies),
            )  # fmt: skip
            self.brokers.append(Broker(home, settings, ports[node]))
            (home / "data").mkdir()
            marks = {"version": "1", "cluster.id": cluster, "node.id": str(node + 1), "directory.id": _identifier()}
            lines = "".join(f"{name}={value}\n" for name, value in marks.items())
            (home / "data" / "meta.properties").write_text(lines)

    @property
    def servers(self) -> str:
        """The addresses of all nodes, as Kafka's clients take them."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def url(self, name: str = "") -> str:
        """The address of a log on this cluster."""
        return f"kafka://{self.servers}/{name}" if name else f"kafka://{self.servers}"

    def start(self) -> None:
        """Starts all nodes, and returns when they take connections."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait()

    def kill(self) -> None:
        """Ends all nodes as a power cut would."""
        for broker in self.brokers:
            broker.kill()


@contextmanager
def running(nodes: int = 1) -> Iterator[KafkaCluster]:
    """A cluster that has started, and is gone after the block with all its data. Raises `LookupError` as `fetch`."""
    fetch()
    with tempfile.TemporaryDirectory(prefix="headwater-kafka-broker-") as directory:
        cluster = KafkaCluster(Path(directory), nodes)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


def tool(name: str, *arguments: str, timeout: float = 300.0, input: IO[bytes] | None = None) -> str:  # noqa: A002
    """What one of Kafka's own command-line tools prints, by the name of its class."""
    done = subprocess.run(
        [*_JAVA, "-cp", f"{fetch()}/*", f"org.apache.kafka.tools.{name}", *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=input or subprocess.DEVNULL,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stdout[-2000:]}")
    return done.stdout


def command(arguments: Sequence[str]) -> list[str]:
    """The command that runs one of Kafka's classes, with arguments."""
    return [*_JAVA, "-cp", f"{fetch()}/*", *arguments]


def _identifier() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")


@contextmanager
def _held_port() -> Iterator[int]:
    """A free port; several that are held at once are different ones."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as tried, suppress(OSError):
        tried.settimeout(1)
        tried.connect(("127.0.0.1", port))
        return True
    return False
