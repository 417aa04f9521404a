"""`headwater` serve and token: an application over HTTP, and who may use it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from headwater.cli.app_argument import PANEL, Application
from headwater.cli.arguments import Json, examples
from headwater.cli.ending import Ending
from headwater.cli.output import Column, print_json, print_line, print_table, say
from headwater.cli.serving import Certificate, Host, Key, LimitOptions, Port, address_of
from headwater.cli.showing import Showing
from headwater.errors import UsageError
from headwater.loading import load
from headwater.model.encoding import format_instant
from headwater.runner import serving
from headwater.server.running import HOST
from headwater.server.tokens import Token, Tokens
from headwater.server.verifications import ProcessVerifier


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command, *lines in (
        (serve, "headwater serve app.py", "headwater serve app.py --port 9000 --limit query_seconds_max=60"),
        (token, "headwater token app.py --scope write --name ingest", "headwater token app.py --list"),
    ):
        app.command(rich_help_panel=PANEL, epilog=examples(*lines))(command)


def serve(
    application: Application,
    *,
    host: Host = HOST,
    port: Port = None,
    certificate: Certificate = None,
    key: Key = None,
    limits: LimitOptions = None,
) -> None:
    """Serve an application over HTTP, until Ctrl-C: records in, views out, and the state of everything.

    It needs no Spark: `headwater run` keeps the views up to date in another process, or serves as well. The API is in
    docs/reference/api.md and at /openapi.json. A view is verified in a separate process.
    """
    address = address_of(host, port, certificate, key)
    with (
        load(application, "create") as app,
        Ending() as ending,
        serving(app, address, Showing(), limits or (), verify=ProcessVerifier(application)),
    ):
        wait(ending)


def wait(ending: Ending) -> None:
    """Returns when somebody wants the program to end."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        if not ending.asked:
            raise


def token(
    application: Application,
    *,
    scope: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(help="What the token allows: write includes read, and admin includes everything."),
    ] = "read",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The token's name; its scope by default.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List tokens (secrets are never shown).")] = False,
    revoke: Annotated[
        str | None, typer.Option(metavar="NAME", help="Revoke a token (takes effect within 1 s).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a token for the server and print it. It is shown only once; only its hash is stored.

    Once there is a token, every request needs one: Authorization: Bearer TOKEN.
    """
    if listed and revoke is not None:
        raise UsageError("--list and --revoke cannot be combined.", hint="Use one of them.")
    with load(application, "refuse" if listed or revoke is not None else "create") as app:
        tokens = Tokens(app.directory)
        if listed:
            _print(tokens.all(), as_json=as_json)
        elif revoke is not None:
            tokens.revoke(revoke)
            say(f"Token {revoke} has been revoked.")
        else:
            _print_new(tokens.create(name or scope, scope), name or scope, scope, as_json=as_json)


def _print_new(text: str, name: str, scope: str, *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "scope": scope, "token": text}])
        return
    print_line(text)
    say(f"Created token {name} with scope {scope}. Save it now: it cannot be shown again.")


def _print(tokens: list[Token], *, as_json: bool) -> None:
    if as_json:
        print_json({"name": one.name, "scope": one.scope, "created_at": _made(one)} for one in tokens)
    elif not tokens:
        say("There are no tokens: anyone on this machine may do everything.")
    else:
        columns = [Column("token"), Column("scope"), Column("made")]
        print_table(columns, [(one.name, one.scope, _made(one)) for one in tokens])


def _made(one: Token) -> str:
    return format_instant(datetime.fromtimestamp(one.created_at, UTC).replace(microsecond=0))
