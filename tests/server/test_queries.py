"""Queries run in processes of their own: what a query does ends that query, and nobody else notices."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from headwater.errors import HeadwaterError
from headwater.model.ddl import format_type
from headwater.model.encoding import json_rows
from headwater.server.failures import error_body
from headwater.server.queries import forking, pool
from headwater.server.sse import to_json
from tests.server.shop import Shop, opened

MEMORY_BYTES_MAX = 64 << 20
GROWTH_BYTES_MAX = 100 << 20
"""What the server may grow by under all attacks together; each of them alone asks for more."""
SLOW = "SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000)) AS n"
"""Minutes inside one call of a function, where nothing can interrupt it."""
TOO_LONG = ("query_too_long", "query_seconds_max")
OUT_OF_MEMORY = ("query_out_of_memory", "query_bytes_max")
TOO_LARGE = ("query_too_large", "query_answer_bytes_max")


@pytest.fixture
def warm_up_after() -> float:
    return pool.WARM_UP_AFTER_SECONDS


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with limited(tmp_path_factory.mktemp("attacked"), seconds=2) as shop:
        yield shop


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Gives a query more time than it needs to fill its memory, also on a busy machine."""
    with limited(tmp_path_factory.mktemp("patient"), seconds=25) as shop:
        yield shop


@contextmanager
def limited(directory: Path, seconds: int) -> Iterator[Shop]:
    limits = {"query_seconds_max": seconds, "query_bytes_max": MEMORY_BYTES_MAX, "query_answer_bytes_max": 4 << 20}
    with opened(directory, limits=limits) as shop:
        assert ask(shop, "SELECT 1").status_code == 200
        yield shop


def ask(shop: Shop, sql: str) -> httpx.Response:
    return shop.client.post("/query", json={"sql": sql})


def answers(shop: Shop) -> bool:
    """Whether a query is answered as ever."""
    rows = ask(shop, "SELECT count(*) AS n FROM v").json().get("rows")
    return bool(rows == [{"n": 2}])


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def eventually(holds: Callable[[], object]) -> bool:
    """Whether something comes true, within far more time than it needs."""
    until = time.monotonic() + 20
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def fork_server(shop: Shop) -> int:
    """The process that started the workers."""
    (found,) = {parent(worker) for worker in shop.service.query_pool.processes}
    assert parent(found) == os.getpid()
    return found


def children(process: int) -> list[int]:
    """Those of all threads of a process, dead ones that nobody waited for included."""
    listed = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return [int(child) for each in listed for child in each]


ATTACKS = {
    "a list in one call": ("SELECT len(range(1000000000))", OUT_OF_MEMORY),
    "rows in one call": ("SELECT unnest(range(1000000000))", OUT_OF_MEMORY),
    "a text in one call": ("SELECT repeat('x', 1000000000)", OUT_OF_MEMORY),
    "a padded text": ("SELECT length(format('{:>2000000000}', 'x'))", OUT_OF_MEMORY),
    "JSON": ("SELECT json_array_length(('[' || repeat('1,', 400000000) || '1]')::json)", OUT_OF_MEMORY),
    "a group for each row": ("SELECT range, count(*) FROM range(100000000) GROUP BY ALL ORDER BY 2", OUT_OF_MEMORY),
    "a sort": (
        "SELECT sum(n * range) FROM (SELECT range, row_number() OVER (ORDER BY hash(range)) AS n FROM range(50000000))",
        OUT_OF_MEMORY,
    ),
    "a text of all rows": ("SELECT string_agg(range::varchar) FROM range(1000000000)", OUT_OF_MEMORY),
    "a text that doubles": (
        "WITH RECURSIVE t(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM t) SELECT max(length(x)) FROM t",
        OUT_OF_MEMORY,
    ),
    "a recursion without end": (
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
        TOO_LONG,
    ),
    "a cross join": (
        "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3",
        TOO_LONG,
    ),
    "a function that does not end": (SLOW, TOO_LONG),
    "a regular expression": (
        "SELECT count(*) FROM range(100000) t WHERE regexp_matches(repeat('a', 20000), '(x+x+)+y' || t.range)",
        TOO_LONG,
    ),
    "many columns": (f"SELECT {','.join('1' * 300000)}", OUT_OF_MEMORY),
    "nested brackets": (f"SELECT {'[' * 50000}1{']' * 50000}", OUT_OF_MEMORY),
    "nested parentheses": (f"SELECT {'(' * 200000}1{')' * 200000}", OUT_OF_MEMORY),
    "nested subqueries": (f"SELECT * FROM {'(SELECT * FROM ' * 20000}range(1){')' * 20000}", OUT_OF_MEMORY),
    "a chain of operators": (f"SELECT {'1+' * 200000}1", None),
    "a large message": ("SELECT error(repeat('x', 20000000))", None),
    "a message of many lines": ("SELECT error(repeat(chr(10), 20000000))", None),
    "large rows": ("SELECT repeat('x', 100000) FROM range(1000)", TOO_LARGE),
    "bits that are words in JSON": ("SELECT list_transform(range(3000000), lambda x: true)", None),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_nothing_but_itself(request: pytest.FixtureRequest, name: str) -> None:
    sql, ended = ATTACKS[name]
    attacked: Shop = request.getfixturevalue("patient" if ended in (OUT_OF_MEMORY, TOO_LARGE) else "attacked")
    before = resident_bytes()
    answered = ask(attacked, sql)
    error = answered.json()["error"]
    assert answered.status_code == 422, error
    assert len(answered.content) < 2 << 20
    if ended is not None:
        assert (error["code"], error["limit"]) == ended
        assert ended[1] in error["hint"]
    assert answers(attacked)
    assert resident_bytes() - before < GROWTH_BYTES_MAX
    assert attacked.client.get("/views/v").status_code == 200


def test_attacks_count(patient: Shop) -> None:
    assert ask(patient, "SELECT len(range(1000000000))").status_code == 422
    metrics = patient.client.get("/metrics").text
    assert 'headwater_queries_ended_total{limit="query_bytes_max"}' in metrics


def test_queries_go_on_beside_an_attack(attacked: Shop) -> None:
    def post(sql: str) -> int:
        return httpx.post(f"{attacked.server.url}/query", json={"sql": sql}, timeout=30).status_code

    with ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(post, sql) for sql in (SLOW, "SELECT len(range(1000000000))")]
        others = [threads.submit(post, "SELECT count(*) FROM v") for _ in range(2)]
        assert [one.result() for one in others] == [200, 200]
        assert [one.result() for one in attacks] == [422, 422]


def test_nothing_is_left_of_queries_that_were_killed(attacked: Shop) -> None:
    assert answers(attacked)
    assert eventually(lambda: len(attacked.service.query_pool.processes) <= pool.WAITING_MAX)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        assert ask(attacked, "SELECT len(range(1000000000))").status_code == 422
    assert answers(attacked)
    assert eventually(lambda: len(attacked.service.query_pool.processes) <= pool.WAITING_MAX)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + pool.WAITING_MAX
    # No zombies: what has ended was waited for.
    parent_of_all = fork_server(attacked)
    assert eventually(lambda: sorted(children(parent_of_all)) == sorted(attacked.service.query_pool.processes))


def test_views_may_be_too_large_for_a_query(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"query_views_bytes_max": 20 << 20}) as shop:
        # One row, which is there so often that its copies do not fit.
        shop.publish((3, "three", 20_000_000), position=1)
        refused = ask(shop, "SELECT count(*) FROM v")
        assert (refused.status_code, refused.json()["error"]["limit"]) == (422, "query_views_bytes_max")
        assert ask(shop, "SELECT 1 AS n").status_code == 422  # it names no view, so that it may read each
        shop.publish((3, "three", -20_000_000), position=2)
        assert answers(shop)


def test_processor_time_is_limited(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"query_cpu_seconds_max": 1, "query_seconds_max": 60}) as shop:
        refused = ask(shop, SLOW)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["limit"]) == (
            422,
            "query_too_long",
            "query_cpu_seconds_max",
        )
        assert answers(shop)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    limits = {"query_seconds_max": 60, "query_cpu_seconds_max": 60}
    with opened(tmp_path_factory.mktemp("shop"), limits=limits) as made:
        assert answers(made)
        yield made


def busy(shop: Shop) -> int:
    """The process that runs a query: the one that has computed for longer than any needs to start."""
    before = {process: cpu(process) for process in shop.service.query_pool.processes}

    def computed(process: int) -> int:
        return cpu(process) - before.get(process, 0)

    assert eventually(lambda: any(computed(process) >= 50 for process in shop.service.query_pool.processes))
    return max(shop.service.query_pool.processes, key=computed)


def cpu(process: int) -> int:
    """Processor time, in hundredths of a second."""
    try:
        parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(parts[11]) + int(parts[12])


@pytest.mark.parametrize(
    ("number", "status", "code"), [(signal.SIGKILL, 503, "query_lost"), (signal.SIGSEGV, 422, "query_crashed")]
)
def test_a_worker_that_dies_is_one_query_that_fails(shop: Shop, number: int, status: int, code: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, shop, SLOW)
        process = busy(shop)
        os.kill(process, number)
        answered = asked.result()
    assert (answered.status_code, answered.json()["error"]["code"]) == (status, code)
    assert answered.json()["error"]["hint"]
    assert answers(shop)
    assert process not in shop.service.query_pool.processes
    assert not is_alive(process)


def test_a_worker_that_dies_while_it_waits_is_replaced(shop: Shop) -> None:
    assert eventually(lambda: shop.service.query_pool.processes)
    before = shop.service.query_pool.processes
    for process in before:
        os.kill(process, signal.SIGKILL)
    assert eventually(lambda: not set(before) & set(shop.service.query_pool.processes))
    assert answers(shop)


def test_a_fork_server_that_dies_takes_its_workers_with_it_and_is_replaced(shop: Shop) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, shop, SLOW)
        worker, killed = busy(shop), fork_server(shop)
        os.kill(killed, signal.SIGKILL)
        answered = asked.result()
    assert (answered.status_code, answered.json()["error"]["code"]) == (503, "query_lost")
    assert eventually(lambda: not is_alive(worker))
    assert answers(shop)
    assert fork_server(shop) != killed
    assert not Path(f"/proc/{killed}").exists()


def test_a_worker_ends_after_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "QUERIES_PER_WORKER_MAX", 1)
    with opened(tmp_path) as shop:
        assert answers(shop)
        first = set(shop.service.query_pool.processes)
        assert answers(shop)
        assert answers(shop)
        assert eventually(lambda: not first & set(shop.service.query_pool.processes))


def test_a_worker_stays_for_the_next_query(shop: Shop) -> None:
    assert eventually(lambda: len(shop.service.query_pool.processes) == pool.WAITING_MAX)
    before = shop.service.query_pool.processes
    for _ in range(10):
        assert answers(shop)
    assert ask(shop, "SELEC").status_code == 422
    assert shop.service.query_pool.processes == before


def test_a_query_of_a_client_that_is_gone_ends(shop: Shop) -> None:
    body = json.dumps({"sql": SLOW}).encode()
    head = f"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", shop.server.port)) as client:
        client.sendall(head.encode() + b"\r\n\r\n" + body)
        process = busy(shop)
        assert shop.service.queries == 1
    assert eventually(lambda: not is_alive(process))
    assert eventually(lambda: shop.service.queries == 0)
    assert answers(shop)


READ = ("store.db", "catalog.db", "write.", "upkeep.", "wake")
"""The files with which views and a log are opened to be read."""


def test_a_worker_has_nothing_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    with opened(tmp_path) as shop:
        assert ask(shop, "SELECT 1").status_code == 200
        for process in (fork_server(shop), *shop.service.query_pool.processes):
            assert b"DATABASE_PASSWORD" not in Path(f"/proc/{process}/environ").read_bytes()
            # A worker that was forked this very moment, and its fork server, still have what the other is to have.
            assert eventually(partial(_has_one_socket, process, tmp_path)), _links(process)


def _has_one_socket(process: int, directory: Path) -> bool:
    """Whether a process has one socket, the one to the server, and of the application only the log and the views."""
    links = _links(process)
    sockets = [link for number, link in links.items() if link.startswith("socket:") and number > 2]
    ours = [link for link in links.values() if link.startswith("/") and str(directory) in link]
    return len(sockets) == 1 and all(Path(link).name.startswith(READ) for link in ours)


def _links(process: int) -> dict[int, str]:
    found = {}
    for fd in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found[int(fd.name)] = str(fd.readlink())
    return found


def test_no_process_is_left_when_the_server_stops(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        assert answers(shop)
        processes = [fork_server(shop), *shop.service.query_pool.processes]
        assert len(processes) >= 2
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_no_process_is_left_of_a_fork_server_that_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "STOP_SECONDS_MAX", 0.2)
    with opened(tmp_path) as shop:
        assert answers(shop)
        processes = [fork_server(shop), *shop.service.query_pool.processes]
        os.kill(processes[0], signal.SIGSTOP)
    assert eventually(lambda: not any(is_alive(process) for process in processes))


def test_no_process_is_left_when_the_server_is_killed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass  # publishes
    program = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path), "0"]
    server = subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/query"
        assert httpx.post(url, json={"sql": "SELECT 1"}, timeout=30).status_code == 200
        threading.Thread(target=lambda: _posted(url), daemon=True).start()
        (parent_of_all,) = children(server.pid)
        assert eventually(lambda: any(cpu(worker) >= 50 for worker in children(parent_of_all)))
        processes = [parent_of_all, *children(parent_of_all)]
    finally:
        server.kill()
        server.communicate()
    assert len(processes) >= 2
    assert eventually(lambda: not any(is_alive(process) for process in processes))


def _posted(url: str) -> None:
    with suppress(httpx.HTTPError):  # the server is killed
        httpx.post(url, json={"sql": SLOW}, timeout=30)


VALUES = """
    SELECT 1::tinyint AS a, 2::smallint AS b, 3::int AS c, 4::bigint AS d, 170141183460469231731687303715884105727 AS e,
        5::utinyint AS f, 18446744073709551615::ubigint AS g, 1.5::float AS h, 'nan'::double AS i, '-inf'::double AS j,
        12.340::decimal(18, 3) AS k, 12345678901234567890.12::decimal(38, 2) AS l, true AS m, 'ä\n"x' AS n,
        'ab\\x00'::blob AS o, DATE '2026-01-31' AS p, TIME '12:34:56.789' AS q, TIMESTAMP '2026-01-31 12:00:00.5' AS r,
        TIMESTAMPTZ '2026-01-31 12:00:00+01' AS s, INTERVAL 3 DAY AS t, [1, NULL, 3] AS u, [[1.10], []] AS v,
        {'x': 1, 'y': {'z': [DATE '2026-01-31']}} AS w, MAP {'k': 1.5::decimal(5, 2)} AS x, MAP {1: 'one'} AS y,
        uuid '8f5cf7b4-4e5b-4a0e-9a3c-0a7c2ce9d6d4' AS z, 'a'::ENUM ('a', 'b') AS aa, '101'::bit AS bb,
        NULL AS cc, NULL::decimal(10, 2) AS dd, ''::varchar AS ee, [1, 2]::int[2] AS ff, {'q': NULL} AS gg
"""


@pytest.mark.parametrize(
    "sql",
    [
        VALUES,
        f"SELECT * FROM ({VALUES}) WHERE false",
        f"SELECT * FROM ({VALUES}) UNION ALL SELECT * FROM ({VALUES}) ORDER BY 1",
        "SELECT * FROM v ORDER BY key",
        "SELECT * FROM range(1000)",
        "SELECT CASE WHEN range % 3 = 0 THEN range::decimal(10, 1) END AS x FROM range(700) ORDER BY range",
        "SELECT unnest([{'a': 1, 'b': NULL}, NULL])",
        "SHOW TABLES",
        "DESCRIBE v",
        "EXPLAIN SELECT 1",
        "VALUES (1, 'x')",
    ],
)
def test_answers_are_those_of_a_query_in_python(attacked: Shop, sql: str) -> None:
    found = attacked.app.answer(sql)
    expected = {
        "position": str(found.position),
        "columns": [{"name": field.name, "type": format_type(field.type)} for field in found.table.schema],
        "rows": list(json_rows(found.table)),
        "cut": False,
    }
    answered = ask(attacked, sql)
    assert answered.status_code == 200
    assert answered.text == to_json(expected)
    assert answered.headers["Headwater-Position"] == str(found.position)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELEC",
        "SELECT\n  nope\nFROM v",
        "SELECT * FROM nope",
        "SELECT * FROM v JOIN nope USING (key)",
        "SELECT 1; SELECT 2",
        "DROP TABLE v",
        "SET threads = 8",
        "SELECT * FROM read_csv('/etc/hostname')",
        f"SELECT {'not ' * 2000}true",
        "SELECT sum(text) FROM v",
    ],
)
def test_errors_are_those_of_a_query_in_python(attacked: Shop, sql: str) -> None:
    with pytest.raises(HeadwaterError) as raised:
        attacked.app.query(sql)
    answered = ask(attacked, sql)
    assert answered.status_code in (404, 422)
    assert answered.json() == error_body(raised.value)


def test_a_query_sees_nothing_of_another(attacked: Shop) -> None:
    for sql in (
        "EXPLAIN ANALYZE CREATE TABLE left_behind AS SELECT 1",
        "EXPLAIN ANALYZE CREATE TEMP TABLE left_behind AS SELECT 1",
        "EXPLAIN ANALYZE CREATE MACRO abs(x) AS 7",
    ):
        ask(attacked, sql)
        for _ in range(2 * pool.WAITING_MAX):
            assert ask(attacked, "SELECT * FROM left_behind").status_code == 404
            assert ask(attacked, "SELECT abs(-1) AS x").json()["rows"] == [{"x": 1}]
    assert ask(attacked, "SELECT setseed(0.5)").status_code == 200


def test_a_worker_reads_what_was_published_since(tmp_path: Path) -> None:
    with opened(tmp_path) as shop:
        assert answers(shop)
        for position in range(1, 6):
            shop.publish((10 + position, "more", 1), position=position)
            answered = shop.client.post(f"/query?at_least={position}", json={"sql": "SELECT count(*) AS n FROM v"})
            assert (answered.json()["position"], answered.json()["rows"]) == (str(position), [{"n": 2 + position}])
