"""What a topic's settings are on Kafka."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.log.kafka.settings import with_views


def test_views_keep_what_kafka_deletes() -> None:
    assert with_views({"cleanup": "delete"}) == {"views": "keep", "cleanup": "delete"}
    with pytest.raises(UsageError, match="Views cannot forget what Kafka deletes"):
        with_views({"views": "forget"})
