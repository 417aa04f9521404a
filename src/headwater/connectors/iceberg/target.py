"""An Iceberg table as a target: `hw.sinks.Iceberg("sqlite:///lake/catalog.db", table="shop.revenue")`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from headwater.connectors.iceberg.rows import IcebergTable
from headwater.connectors.lake.target import Keep, LakeOptions, LakeTarget
from headwater.model.durations import Duration


class Iceberg(LakeTarget):
    """A table of an Iceberg catalog, which is created if it is missing. Each delivery is one snapshot of it.

    `catalog` is `sqlite:///path`, the URL of a REST catalog, or a name of pyiceberg's configuration; `warehouse` is the
    directory or the place in S3 where new tables are made. With `keep="content"` the table holds the rows of the view,
    with "changes" every change of it. The next delivery waits until `every` has passed since the last one. Snapshots,
    and files that later ones do not need, are removed after `retention`. A table with rows that no sink has put there
    is left alone unless `replace`.
    """

    kind: ClassVar[str] = "iceberg"

    def __init__(
        self,
        catalog: str,
        *,
        table: str,
        warehouse: str | Path | None = None,
        keep: Keep = "content",
        every: Duration = "1 minute",
        retention: Duration = "7 days",
        replace: bool = False,
    ) -> None:
        options = LakeOptions.checked(keep=keep, every=every, retention=retention, replace=replace)
        super().__init__(IcebergTable(catalog, table, warehouse), options)
