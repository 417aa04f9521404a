"""The files of the console: kept in the package, read once, and served with rules that let nothing else run.

They are no part of the API, hold nothing of the application, and need no token: what a page shows it asks of the API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

INDEX = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Only our own files, nothing inline, nothing from elsewhere; and text cannot become markup by mistake.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@dataclass(frozen=True, slots=True)
class File:
    """What a browser gets."""

    content: bytes
    media_type: str
    tag: str


@cache
def console_files() -> Mapping[str, File]:
    """Every file by its path."""
    return dict(_below(files("headwater.server") / "console"))


def _below(directory: Traversable, prefix: str = "") -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for one in directory.iterdir():
        ending = "." + one.name.rpartition(".")[2]
        if one.is_dir():
            found += _below(one, f"{prefix}{one.name}/")
        elif ending in MEDIA_TYPES:
            content = one.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found.append((prefix + one.name, File(content, MEDIA_TYPES[ending], tag)))
    return found


def wants_page(accept: str) -> bool:
    """Whether a client is a browser that opens a page, rather than a program that asks for JSON."""
    return "text/html" in accept


async def serve_file(request: Request) -> Response:
    """A file of the console. Raises `HTTPException` if there is none."""
    return file_answer(request.path_params["file"], request.headers.get("if-none-match", ""))


def file_answer(name: str, known_tag: str = "") -> Response:
    """A file, or that the browser has it already: asked for each time, so that a new version is seen at once."""
    file = console_files().get(name)
    if file is None:
        raise HTTPException(404)
    headers = {"Cache-Control": "no-cache", "ETag": file.tag, "Content-Security-Policy": POLICY}
    if known_tag == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, 200, {**headers, "Content-Type": file.media_type})
