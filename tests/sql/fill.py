"""Writes into case files what raw Spark answers: to be read before it is kept.

Run it with the names of the files: python -m tests.sql.fill tests/sql/cases/joins.test

The tables of all views are replaced. Only where the SQL leaves the answer open, what is written stays, because
headwater's rules decide there; one of the possible answers is written where there is none yet.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.spark.session import start_session
from tests.sql.casefile import View, read
from tests.sql.oracles import Answers, SparkOracle, content_of, records_of
from tests.sql.rendering import table_lines
from tests.sql.running import append, open_app


def fill(session: SparkSession, path: Path) -> None:
    """Fills in the tables of a file, and says where a remark is missing or wrong."""
    file, text = read(path), path.read_text()
    with tempfile.TemporaryDirectory() as directory, open_app(file, Path(directory) / "log") as app:
        for step in file.steps:
            for changes in step.commits:
                append(app.log, changes)
        answers = SparkOracle(session, file).answers(content_of(app.log), records_of(app.log, file))
    for view in file.views:
        if view.name not in answers:
            continue
        found = answers[view.name]
        if found.are_open and not view.open:
            print(f"{path}: {view.name} is open: say why")
        if not (view.open and view.expected):
            text = filled(text, view, found)
    path.write_text(text)


def filled(text: str, view: View, answers: Answers) -> str:
    """The text of a file with the first answer to a view as its table."""
    written = "".join(f"{line}\n" for line in table_lines(answers.written[0]))
    block = re.compile(rf"^(view {view.name}\b.*\n{re.escape(view.sql)}\n=>\n)(?:\|.*(?:\n|\Z))*", re.MULTILINE)
    return block.sub(lambda match: match[1] + written, text)


if __name__ == "__main__":
    spark = start_session("local[2]")
    for argument in sys.argv[1:]:
        fill(spark, Path(argument))
