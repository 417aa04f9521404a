"""Applications for tests: an example of the documentation over a log of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example, loaded as its own user would have done, with its data in a directory."""
    monkeypatch.chdir(directory)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
