"""A driver of the shop whose views have changed, to be killed while it builds them; it prints what each batch was."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.test_changing_views import CHANGED
from tests.spark.test_pipeline import shop

if __name__ == "__main__":
    with shop(Path(sys.argv[1]), CHANGED, batch_rows_max=2) as app:
        for progress in app.batches():
            print("built" if progress.build else "ran", progress.batch, flush=True)
