"""Writes into case files what Spark's batch query gives, where no rows are written yet: to be read before it is kept.

Run it with the names of the files: python -m tests.sql.fill tests/sql/cases/joins.test
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from headwater.spark.session import start_session
from headwater.spark.verification import Batches
from tests.sql.casefile import read
from tests.sql.rendering import table_cells, table_lines
from tests.sql.running import append, open_app


def fill(path: Path) -> None:
    """Fills in the tables of the views that end with an arrow and nothing below it."""
    file, text = read(path), path.read_text()
    with tempfile.TemporaryDirectory() as directory, open_app(file, Path(directory) / "log") as app:
        for step in file.steps:
            for changes in step.commits:
                append(app.log, changes)
        batches = Batches(app.program, app.log)
        for view in file.views:
            if view.expected == []:
                content = batches.content(view.name, app.log.position())
                arrow = f"view {view.name}\n{view.sql}\n=>\n"
                text = text.replace(arrow, arrow + "\n".join(table_lines(table_cells(content))) + "\n")
    path.write_text(text)


if __name__ == "__main__":
    start_session("local[2]")
    for argument in sys.argv[1:]:
        fill(Path(argument))
