"""An application in a Spark of the caller, or with settings for ours: what it sees, and what it leaves as it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import headwater as hw

ZONE = "spark.sql.session.timeZone"


def given_session() -> SparkSession:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.conf.set(ZONE, "Asia/Tokyo")
    return session


def used(app: hw.App) -> dict[str, object]:
    app.topic("orders", "id bigint, at timestamp", key="id")
    app.topic("clicks", "url string")

    @app.function(returns="bigint")
    def doubled(number: pa.Array) -> pa.Array:
        return pc.multiply(number, 2)

    app.view("days", "SELECT id, doubled(id) AS twice, date_format(at, 'yyyy-MM-dd HH:mm') AS day FROM orders")
    position = app.log.append("orders", [{"id": 1, "at": "2026-01-01T20:00:00Z"}])
    app.log.append("clicks", [{"url": "a"}])
    app.catch_up()
    frame = app.dataframe("days", at_least=position)
    return {
        "view": [row.asDict() for row in frame.collect()],
        "topic": app.dataframe("orders", at=position).selectExpr("id", "unix_timestamp(at) AS at").first().asDict(),  # type: ignore[union-attr]
        "stream": [row.url for row in app.dataframe("clicks").collect()],
        "verified": app.verify("days").equal,
        "label": frame.sparkSession.sparkContext.getConf().get("spark.headwater.test"),
    }


def main(place: Path, whose: str) -> None:
    if whose == "ours":
        with hw.App("shop", log=place, master="local[2]", spark_conf={"spark.headwater.test": "set"}) as app:
            found = used(app)
    else:
        session = given_session()
        before = sorted(map(tuple, session.sql("SET").collect()))
        with hw.App("shop", log=place, spark=session) as app:
            found = used(app)
        found["unchanged"] = sorted(map(tuple, session.sql("SET").collect())) == before
        found["zone"] = session.sql("SELECT current_timezone() AS zone").collect()[0].zone
        found["default"] = SparkSession.builder.getOrCreate().conf.get(ZONE)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
