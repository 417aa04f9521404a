"""What Spark says reaches standard error, but for what is no news."""

from __future__ import annotations

import os

import pytest

from headwater.spark.noise import Told, without_noise

WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
TRACE = b"Traceback (most recent call last):\n"
WORKER = b'  File "pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
OTHER = b'  File "functions.py", line 1, in f\n'
PIPE = b"BrokenPipeError: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([WARNING, b"a\n"], [b"a\n"]),
        ([TRACE, WORKER, PIPE, b"a\n"], [b"a\n"]),
        ([TRACE, WORKER, PIPE, TRACE, WORKER, PIPE], []),
        ([TRACE, OTHER, PIPE], [TRACE, OTHER, PIPE]),
        ([TRACE, WORKER, b"ValueError: x\n", b"a\n"], [TRACE, WORKER, b"ValueError: x\n", b"a\n"]),
        ([TRACE, TRACE, WORKER, PIPE], [TRACE]),
        ([TRACE, TRACE, WORKER, WORKER, PIPE, WORKER, PIPE, b"a\n"], [b"a\n"]),
        ([TRACE, WORKER], [TRACE, WORKER]),
    ],
)
def test_only_noise_is_left_out(given: list[bytes], passed: list[bytes]) -> None:
    assert list(without_noise(given)) == passed


def test_lines_are_held_back_until_they_may_pass(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    told = Told(reading)
    os.write(writing, WARNING + b"no\n  java.\n")
    os.close(writing)
    assert told.all() == "no java"
    assert capsys.readouterr().err == ""
    told.pass_on()
    assert capsys.readouterr().err == "no\n  java.\n"
