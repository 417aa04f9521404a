"""The shop of the tests as an application for the command line; SHOP says where it is."""

from __future__ import annotations

import os
from pathlib import Path

from tests.spark.test_pipeline import shop

app = shop(Path(os.environ["SHOP"]))
