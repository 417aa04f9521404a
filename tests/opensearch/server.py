"""An OpenSearch for tests, fetched once from Maven Central: one node, on a free port, in a temporary folder."""

from __future__ import annotations

import fcntl
import http.client
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "2.19.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
JARS = CACHE / f"opensearch-{VERSION}"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
RUNNER = "org.codelibs.opensearch.runner.OpenSearchRunner"
_JAVA = ("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
START_SECONDS_MAX = 100.0
"""It takes about 10 s, and minutes on a machine with too much to do."""
PORTS = range(9201, 9300)
"""From which what starts it takes the first free one."""
_CONFIGURATION = """
network.host: 127.0.0.1
transport.port: {transport}
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
node.store.allow_mmap: false
"""


def fetch() -> Path:
    """The folder with OpenSearch and what it needs, filled when it is asked for first. Raises `LookupError`."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{JARS.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if JARS.is_dir():
            return JARS
        if shutil.which("mvn") is None:
            raise LookupError("OpenSearch is fetched by Maven, which is missing: sudo apt-get install maven")
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            jars = Path(directory) / "jars"
            subprocess.run(
                ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), PLUGIN, f"-DoutputDirectory={jars}"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            jars.rename(JARS)
    return JARS


class Server:
    """One node. It keeps its data and its port when it is stopped or killed, and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._name = directory, f"headwater-{uuid.uuid4().hex}"
        self.port, transport = _free_port(PORTS), _free_port([0])
        self._process: subprocess.Popen[bytes] | None = None
        settings = directory / "settings"
        settings.mkdir(parents=True)
        (settings / "opensearch.yml").write_text(_CONFIGURATION.format(transport=transport))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        # It takes the port that is its number, 1, behind the one that it is given.
        options = ["-baseHttpPort", str(self.port - 1), "-clusterName", self._name, "-numOfNode", "1", "-useLogger"]
        options += ["-basePath", str(self._directory), "-confPath", str(self._directory / "settings")]
        with (self._directory / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", f"{fetch()}/*", RUNNER, *options],
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                cwd=self._directory,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"OpenSearch did not start:\n{(self._directory / 'said').read_text()[-3000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        """Whether it answers, and not another server that was faster to take the port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=4s")
            answer = connection.getresponse()
            return answer.status == 200 and self._name in answer.read().decode()
        return False


def _free_port(ports: Sequence[int]) -> int:
    for port in random.sample(ports, len(ports)):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return int(tried.getsockname()[1])
    raise LookupError(f"None of the ports {ports} is free")


@contextmanager
def running() -> Iterator[Server]:
    """A server that has started, and is gone after the block with all its data."""
    with tempfile.TemporaryDirectory(prefix="hwos") as directory:
        server = Server(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.kill()
