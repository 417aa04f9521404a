"""Addresses of logs on Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError
from headwater.log.kafka.address import KafkaAddress


def test_an_address_has_brokers_a_name_and_a_place_for_state() -> None:
    address = KafkaAddress.parse("kafka://a:9092,b:9092/shop?state=/var/shop")
    assert (address.servers, address.name, address.state) == ("a:9092,b:9092", "shop", Path("/var/shop"))
    assert (address.catalog, address.turns) == ("shop.headwater.catalog", "shop.headwater.turns")
    assert address.topic("orders") == "shop.orders"
    assert address.url == "kafka://a:9092,b:9092/shop"


def test_a_log_without_a_name_has_kafkas_own_topic_names() -> None:
    address = KafkaAddress.parse("kafka://a:9092")
    assert (address.topic("orders"), address.catalog) == ("orders", "headwater.catalog")
    assert KafkaAddress.parse(address.url) == address


@pytest.mark.parametrize(
    "url",
    ["kafka://", "kafka:a:9092", "kafka://a:9092/x/y", "kafka://a:9092/../x", "kafka://me@a:9092", "kafka://a:1?x=1"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        KafkaAddress.parse(url)


def test_durability_is_a_setting_of_the_brokers() -> None:
    with pytest.raises(UsageError, match="durability"):
        hw.open("kafka://127.0.0.1:1", durability="os")
