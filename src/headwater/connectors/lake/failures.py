"""What disks, stores and the libraries of table formats raise, as failures of a target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from headwater.errors import TargetFailed


@contextmanager
def failing() -> Iterator[None]:
    """What the machine or the store raises, as a target's failure."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise TargetFailed(_words(error), "refused") from error
    except PermissionError as error:
        raise TargetFailed(_words(error), "refused") from error
    except OSError as error:
        raise TargetFailed(_words(error)) from error


@contextmanager
def library_failing(*kinds: type[Exception]) -> Iterator[None]:
    """What a library raises of its own kinds, as a target's failure."""
    try:
        yield
    except kinds as error:
        raise TargetFailed(_words(error)) from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:500]
