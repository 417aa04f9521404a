"""Serving beside something else: the options of the server, and the server itself for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli.output import complain, say, warn
from headwater.server.keeper import Failed, Keeper
from headwater.server.limits import Limits
from headwater.server.running import PORT, Address, Server, is_free
from headwater.server.service import Running, Service
from headwater.server.verifications import Verify

Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Listen here. On any other than this machine's own, tokens are needed.")
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help=f"Listen on this port, 0 for any; otherwise on {PORT}, or on any if that is taken.",
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
        help="Change a limit of the server, such as query_seconds_max=60; again for more.",
    ),
]


def address_of(host: str, port: int | None, certificate: Path | None, key: Path | None) -> Address:
    """The address that the options mean."""
    if port is None:
        port = PORT if is_free(host, PORT) else 0
    return Address(host, port, certificate, key)


@contextmanager
def serving(
    app: App,
    address: Address,
    limits: list[str] | None = None,
    *,
    verify: Verify | None = None,
    running: Running | None = None,
) -> Iterator[Keeper]:
    """Serves an application within the block. Raises `UsageError` if it cannot start.

    A server that fails later is restarted; the block keeps running.
    """
    allowed, state = Limits().with_options(limits or ()), running or Running()

    def make(at: Address) -> Server:
        service = Service(
            app,
            limits=allowed,
            tokens_required=at.is_public,
            secure=at.certificate is not None,
            verify=verify,
            running=state,
        )
        return Server(service, at)

    def tell(failed: Failed) -> None:
        state.server_restarts += 1
        complain(str(failed))

    with Keeper(make, address, tell) as server:
        if address.is_public and address.certificate is None:
            warn("Tokens and records travel in the clear: use --tls-certificate, or a proxy that does.")
        say(f"Serving {app.name} at {server.url}")
        yield server
