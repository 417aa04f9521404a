"""The options of the server on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.server.running import PORT, Address, is_free

Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="The address to listen on. Any other than this machine's own requires tokens."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help=f"The port to listen on, 0 for any; by default {PORT}, or any if that is taken.",
        show_default=False,
    ),
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate (PEM).")]
LimitOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="Change a limit of the server, such as query_seconds_max=60; repeat for more.",
    ),
]


def address_of(host: str, port: int | None, certificate: Path | None, key: Path | None) -> Address:
    """The address that the options mean."""
    if port is None:
        port = PORT if is_free(host, PORT) else 0
    return Address(host, port, certificate, key)
