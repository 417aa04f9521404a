"""Java is asked once what a name stands for."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from headwater.spark.names import keep_names


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that are put to Java from now on."""
    gateway: Any = spark.sparkContext._gateway
    client, before, asked = gateway._gateway_client, gateway.jvm, list[str]()
    send = client.send_command

    def noting(command: str, *arguments: Any, **options: Any) -> Any:
        asked.append(command)
        return send(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", noting)
    monkeypatch.setattr(gateway, "jvm", before)
    keep_names(gateway)
    return asked


def test_a_name_is_looked_up_once(spark: SparkSession, asked: list[str]) -> None:
    jvm: Any = spark.sparkContext._gateway.jvm  # type: ignore[union-attr]
    first = jvm.org.apache.spark.sql.catalyst.expressions.Literal
    assert len(asked) == 7
    assert jvm.org.apache.spark.sql.catalyst.expressions.Literal is first
    assert len(asked) == 7
    assert isinstance(jvm.org.apache.spark, JavaPackage)


def test_imported_classes_and_plain_ones_work(spark: SparkSession, asked: list[str]) -> None:
    jvm: Any = spark.sparkContext._gateway.jvm  # type: ignore[union-attr]
    assert jvm.java.util.ArrayList().size() == 0
    assert jvm.SparkConf().contains("spark.never") is False
    with pytest.raises(TypeError, match="not callable"):
        jvm.org.apache.nothing()
