"""What topics of tables keep: the newest version of every row, or all of them; audits see through both."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headwater.connectors.postgres import audit as auditing
from headwater.connectors.postgres.log_side import LogSide, rows_at
from headwater.errors import UsageError
from headwater.log.port import Log
from tests.postgres.conftest import Make
from tests.postgres.oracle import assert_same, catch_up, wait_for
from tests.postgres.test_audit import audited, only

Source = psycopg.Connection[Any]


def compact(log: Log, topic: str) -> int:
    log.maintenance.seal(topic)
    return log.maintenance.compact(topic)


def test_the_newest_version_of_every_row_is_enough(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4); CREATE TABLE events (n int4)")
    source.execute("INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g")
    capture = make("t", "events")
    catch_up(capture, source)
    topic = capture.options.names.topic("public", "t")
    assert log.topic(topic).settings.cleanup == "compact"
    assert log.topic(capture.options.names.topic("public", "events")).settings.cleanup == "none"
    source.execute("UPDATE t SET n = n + 1; DELETE FROM t WHERE id > 90")
    catch_up(capture, source)
    assert compact(log, topic) == 100 + 10
    assert_same(source, log, capture, ["t"])
    with audited(log, capture) as audit:
        assert only(audit.audit()).equal


def test_every_version_can_be_kept(source: Source, log: Log, make: Make) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4)")
    capture = make("t", history="full")
    catch_up(capture, source)
    assert log.topic(capture.options.names.topic("public", "t")).settings.cleanup == "none"
    with pytest.raises(UsageError, match="expected 'current' or 'full'"):
        make("t", history="some").options.check()


def test_an_audit_that_compaction_overtakes_looks_at_a_newer_place(
    source: Source, log: Log, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("CREATE TABLE t (id int4 PRIMARY KEY, n int4)")
    source.execute("INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g")
    capture = make("t")
    catch_up(capture, source)
    topic, looks = capture.options.names.topic("public", "t"), list[str]()

    def overtaken(*given: Any) -> LogSide:
        if not looks:
            source.execute("UPDATE t SET n = n + 1")
            wait_for(lambda: log.offsets(topic)[0][1] == 200)
            compact(log, topic)
        looks.append(str(given[-1]))
        return rows_at(*given)

    monkeypatch.setattr(auditing, "rows_at", overtaken)
    with audited(log, capture) as audit:
        assert only(audit.audit()).equal
    assert len(set(looks)) == 2
