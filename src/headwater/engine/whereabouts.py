"""Where the store and the state of a pipeline are when they are not in its directory: a small file there that says so.

Whatever opens the directory as a store finds the store with its help, in any process. The file is written for its owner
only, since an address may have a password in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from headwater.errors import StorageFailed, UsageError
from headwater.log.port import Log

FILE = "whereabouts.json"
_STORES = ("postgresql", "postgres")
_STATES = ("s3", "file", "")


def settle(
    directory: Path,
    name: str,
    log: Log,
    store: str | None,
    state: str | Path | None,
    check: Callable[[str], None],
) -> None:
    """Notes where an application wants its store and its state to be; None is its directory.

    Raises `UsageError` if neither is given although they are elsewhere, and what `check` raises for an address.
    """
    noted = _noted(directory)
    if store is None and state is None:
        if noted is not None:
            raise UsageError(
                f"The views of application {name!r} are not in {directory}: it was run with another store or state.",
                hint="Pass store= and state= as before, or delete whereabouts.json there to begin in the directory.",
            )
        return
    asked = {"store": store, "state": None if state is None else _absolute(state)}
    if noted is None or {key: noted.get(key) for key in asked} != asked:
        address = _address(directory, _key(name, log), store, asked["state"])
        check(address)
        _write(directory, {**asked, "address": address}, fresh=noted is None)


def found_elsewhere(directory: Path) -> str | None:
    """The address of the store whose pipeline has this directory; None if it is the directory itself."""
    noted = _noted(directory)
    return None if noted is None else noted["address"]


def _address(directory: Path, key: str, store: str | None, state: str | None) -> str:
    blobs = str(directory.absolute() / "runs") if state is None else _below(state, key)
    if store is None:
        return f"{directory.absolute().as_uri()}?{urlencode({'state': blobs})}"
    parts = urlsplit(store)
    if parts.scheme not in _STORES:
        raise UsageError(
            f"A store has no scheme {parts.scheme!r}." if parts.scheme else "A store is given by its URL.",
            hint="Use store='postgresql://user@host/database'; without it the store is beside the log.",
        )
    query = parse_qsl(parts.query, keep_blank_values=True)
    if not any(option == "schema" for option, _ in query):
        query.append(("schema", key))
    # Not as forms are encoded: for PostgreSQL a plus sign is a plus sign.
    return urlunsplit(parts._replace(query=urlencode([*query, ("state", blobs)], quote_via=quote)))


def _absolute(state: str | Path) -> str:
    if isinstance(state, Path) or "://" not in state:
        return str(Path(state).absolute())
    if urlsplit(state).scheme not in _STATES:
        raise UsageError(
            f"State has no scheme {urlsplit(state).scheme!r}.",
            hint="Use state='s3://bucket/prefix', or a directory that every machine has at the same path.",
        )
    return state


def _below(state: str, key: str) -> str:
    if "://" not in state:
        return str(Path(state) / key)
    parts = urlsplit(state)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{key}"))


def _key(name: str, log: Log) -> str:
    """What the store and the state of an application are called among others; never the name of another log's."""
    # A log in a directory has this file in its directory, so a new log gets a new name. Others are used by several
    # machines, which have to find the same one.
    identity = uuid.uuid4().hex if urlsplit(log.url).scheme in ("", "file") else f"{log.identity}/{name}"
    # The name of a schema has 63 bytes at most.
    return f"headwater_{name[:32]}_{hashlib.blake2b(identity.encode(), digest_size=6).hexdigest()}"


def _noted(directory: Path) -> Mapping[str, str] | None:
    try:
        found: Mapping[str, str] = json.loads((directory / FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{directory / FILE} cannot be read: {error}.",
            hint="It says where the views are. Delete it to begin again.",
        ) from error
    return found


def _write(directory: Path, noted: Mapping[str, str | None], *, fresh: bool) -> None:
    """Notes it for good. A `fresh` one of another process that came first stays."""
    made = directory / f"{FILE}.{uuid.uuid4().hex}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(noted, file)
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            with suppress(FileExistsError):
                (directory / FILE).hardlink_to(made)
        else:
            made.replace(directory / FILE)
    except OSError as error:
        raise StorageFailed(str(directory / FILE), error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)
