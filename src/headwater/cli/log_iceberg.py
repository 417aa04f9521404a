"""`headwater log iceberg`: a topic as an Iceberg table, for engines that read such tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headwater.cli.arguments import Directory, Json, TopicName, examples, open_existing
from headwater.cli.output import count, hint, print_json, say

PANEL = "Maintenance"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    example = "headwater log iceberg ./data orders --catalog sqlite:///lake/catalog.db --table shop.orders"
    app.command(rich_help_panel=PANEL, epilog=examples(example))(iceberg)


def iceberg(
    directory: Directory,
    topic: TopicName,
    *,
    catalog: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="sqlite:///file (sqlite:////file from the root), a REST catalog, or a name that pyiceberg knows.",
        ),
    ],
    table: Annotated[str, typer.Option(metavar="NAMESPACE.TABLE", help="The table; it is created if it is missing.")],
    warehouse: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the table keeps its metadata; beside an SQLite catalog by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Register the sealed segments of a topic as an Iceberg table, without copying them; repeat it to keep up.

    Compacted and deleted segments are removed from the table. For a topic with an archive, its objects are registered.
    """
    # Connectors load half of headwater, which no other command of a log needs.
    from headwater.connectors.registry import register_iceberg

    with open_existing(directory) as log:
        done = register_iceberg(log, topic, catalog=catalog, table=table, warehouse=warehouse)
        unsealed = sum(segment.rows for segment in log.maintenance.segments(topic) if segment.state != "sealed")
    if as_json:
        print_json([{**asdict(done), "unsealed": unsealed}])
    else:
        typer.echo(done.metadata)
    say(
        f"Table {table} has {count(done.records, 'record')} in {count(done.files, 'file')}: "
        f"{done.added:,} added, {done.removed:,} removed."
    )
    if unsealed:
        hint(f"{count(unsealed, 'record')} not sealed yet: `headwater log seal {directory} {topic}` and run it again.")
