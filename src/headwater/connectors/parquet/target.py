"""A folder of Parquet files as a target: `hw.sinks.Parquet("s3://lake/revenue")`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from headwater.connectors.lake.target import Keep, LakeOptions, LakeTarget
from headwater.connectors.parquet.table import ParquetTable
from headwater.model.durations import Duration


class Parquet(LakeTarget):
    """Parquet files in a directory or in S3; `manifest.json` among them lists the files that belong to the view now.

    With `keep="content"` they hold the rows of the view, with "changes" every change of it. The next delivery waits
    until `every` has passed since the last one. Files that the manifest has dropped are removed after `retention`. If
    the folder has Parquet files that no sink has put there, it is left alone unless `replace`.
    """

    kind: ClassVar[str] = "parquet"

    def __init__(
        self,
        folder: str | Path,
        *,
        keep: Keep = "content",
        every: Duration = "1 minute",
        retention: Duration = "7 days",
        replace: bool = False,
    ) -> None:
        options = LakeOptions.checked(keep=keep, every=every, retention=retention, replace=replace)
        super().__init__(ParquetTable(folder), options)
