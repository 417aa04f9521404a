"""A Delta table as a target: `hw.sinks.Delta("s3://lake/revenue")`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from headwater.connectors.delta.table import DeltaLakeTable
from headwater.connectors.lake.target import Keep, LakeOptions, LakeTarget
from headwater.model.durations import Duration


class Delta(LakeTarget):
    """A Delta table in a directory or in S3, which is created if it is missing. Each delivery is one version of it.

    With `keep="content"` it holds the rows of the view, with "changes" every change of it. The next delivery waits
    until `every` has passed since the last one. Files that later versions do not need are removed after `retention`. A
    table with rows that no sink has put there is left alone unless `replace`.
    """

    kind: ClassVar[str] = "delta"

    def __init__(
        self,
        table: str | Path,
        *,
        keep: Keep = "content",
        every: Duration = "1 minute",
        retention: Duration = "7 days",
        replace: bool = False,
    ) -> None:
        options = LakeOptions.checked(keep=keep, every=every, retention=retention, replace=replace)
        super().__init__(DeltaLakeTable(table, options.retention), options)
