"""Digests of rows, by which a database's server and this side compare what they have."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Digests = npt.NDArray[np.bytes_]
DIGEST = np.dtype("S32")
"""Of a digest as text: 32 hexadecimal digits."""


def digests(texts: pa.Array) -> Digests:
    """The MD5 of each text, as databases write it."""
    contents = texts.cast(pa.binary()).to_pylist()
    return np.array([hashlib.md5(each, usedforsecurity=False).hexdigest() for each in contents], DIGEST)
