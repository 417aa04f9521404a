"""What a view must hold in the end: the same query over the last rows of all keys, by DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from bench.engine.workloads import Workload


def expected(workload: Workload, source: Path) -> pa.Table:
    """The rows of the view."""
    with duckdb.connect() as connection:
        for name, table in workload.tables.items():
            files = str(source / name / "*.parquet")
            if table.key is None:
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}')")
            else:
                connection.execute(
                    f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}') "
                    f"QUALIFY row_number() OVER (PARTITION BY {table.key} ORDER BY seq DESC) = 1 AND NOT deleted"
                )
        return connection.sql(workload.sql).to_arrow_table()


def differing(found: pa.Table, truth: pa.Table) -> int:
    """How many rows are in one of the two and not in the other."""
    with duckdb.connect() as connection:
        connection.register("found", found)
        connection.register("truth", truth)
        names = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in truth.column_names)
        one, other = f"SELECT {names} FROM found", f"SELECT {names} FROM truth"
        query = f"SELECT count(*) FROM (({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}))"
        [(count,)] = connection.sql(query).fetchall()
        return int(count)
