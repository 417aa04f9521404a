"""Too many open files: an error that says so, writers that need few, and upkeep that continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("case", ["partitions", "upkeep"])
def test_a_process_that_may_open_few_files(tmp_path: Path, case: str) -> None:
    script = Path(__file__).with_name("open_files.py")
    done = subprocess.run([sys.executable, script, case, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
