"""What raw Spark answers to the cases of a world, after every step, and with the rows in other orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.spark.catalyst.disturbing import DISTURBING_SETTINGS
from headwater.spark.raw import FEW_ROWS, RawSpark
from headwater.spark.topics import topic_schema
from tests.matrix.cases import Case
from tests.matrix.worlds import World

_ORDERS = 12
"""In how many other orders of rows raw Spark is asked when a view differs."""
_THREADS = 3


@dataclass(slots=True)
class Answers:
    """What raw Spark answers to a case after every step, or why it does not."""

    case: Case
    tables: list[pa.Table] = field(default_factory=list)
    invalid: str = ""
    failure: str = ""


class Oracle:
    """Raw Spark over a world: one session for the rows as they are, and some for the rows in other orders."""

    def __init__(self, session: SparkSession, world: World) -> None:
        self._session, self._world = session, world
        self._raw = RawSpark(session, FEW_ROWS)
        self._shuffled: list[tuple[RawSpark, int]] = []
        self._at = -1

    def checked(self, cases: Sequence[Case]) -> dict[str, Answers]:
        """Whether Spark takes each case. Of alternatives, the first that Spark runs over all rows is chosen."""
        self._put(self._raw, self._everything())
        with ThreadPoolExecutor(_THREADS) as pool:
            return {answers.case.name: answers for answers in pool.map(self._chosen, cases)}

    def answer(self, given: Sequence[Answers]) -> None:
        """Adds what raw Spark answers after every step."""
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, moment in enumerate(self._world.moments):
                self._put(self._raw, moment.rows)
                list(pool.map(self._add, [one for one in given if not one.failure], [number] * len(given)))

    def shuffled(self, sql: str, moment: int) -> list[pa.Table]:
        """The answers to a query after a step with the rows in other orders, divided in other ways."""
        if not self._shuffled:
            for seed in range(_ORDERS):
                settings = {**FEW_ROWS, **DISTURBING_SETTINGS, "spark.sql.shuffle.partitions": "1" if seed % 2 else "3"}
                self._shuffled.append((RawSpark(self._session, settings), seed))
        if self._at != moment:
            for raw, seed in self._shuffled:
                self._put(raw, self._world.moments[moment].rows, seed=seed)
            self._at = moment
        return [raw.answer(raw.frame(sql, seed=seed)) for raw, seed in self._shuffled]

    def _put(self, raw: RawSpark, rows: Mapping[str, pa.Table], *, seed: int | None = None) -> None:
        for topic in self._world.topics:
            raw.put(topic.name, rows[topic.name], topic_schema(topic), seed=seed)

    def _everything(self) -> dict[str, pa.Table]:
        """All rows that a topic ever has, at once."""
        return {
            topic.name: pa.concat_tables(moment.rows[topic.name] for moment in self._world.moments)
            for topic in self._world.topics
        }

    def _chosen(self, case: Case) -> Answers:
        if not case.alternatives:
            return Answers(case, invalid=self._problem(case.sql, run=False))
        problem = ""
        for sql in (case.sql, *case.alternatives):
            problem = self._problem(sql, run=True)
            if not problem:
                return Answers(replace(case, sql=sql, alternatives=()))
        return Answers(case, invalid=problem)

    def _problem(self, sql: str, *, run: bool) -> str:
        try:
            frame = self._raw.frame(sql)
            if run:
                self._raw.answer(frame)
        except (PySparkException, Py4JJavaError, pa.ArrowInvalid) as error:
            # PySpark hands out some columns, such as VARIANT with NULLs, in a form that Arrow refuses.
            return first_line(error)
        return ""

    def _add(self, answers: Answers, moment: int) -> None:
        try:
            answers.tables.append(self._raw.answer(self._raw.frame(answers.case.question)))
        except Exception as error:  # noqa: BLE001 (whatever Spark cannot answer cannot be compared)
            answers.failure = f"{self._world.moments[moment].step.title}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The kind of an error, and the beginning of what it says."""
    lines: Iterable[str] = (line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {next(iter(lines), '')[:300]}"
