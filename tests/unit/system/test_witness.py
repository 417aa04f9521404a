"""A witness knows how far a database had come, and says nothing when it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.system import witness as witness_module
from headwater.system.witness import Witness


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.witness"


@pytest.fixture
def witness(path: Path) -> Iterator[Witness]:
    with closing(Witness(path)) as witness:
        witness.note(7)
        yield witness


def test_it_says_what_it_was_told_last(witness: Witness, path: Path) -> None:
    assert Witness(path).version() == 7
    witness.note(8)
    assert Witness(path).version() == 8
    assert not witness.is_damaged()


def test_nothing_is_known_before_the_first_commit(path: Path) -> None:
    assert Witness(path).version() == 0
    assert not Witness(path).is_damaged()
    assert not path.exists()


def test_a_flipped_bit_is_damage_and_never_another_version(witness: Witness, path: Path) -> None:
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert witness.version() == 0
        assert witness.is_damaged()


@pytest.mark.parametrize("left", [b"", b"hwwit", bytes(32)])
def test_what_a_power_cut_leaves_is_no_damage(witness: Witness, path: Path, left: bytes) -> None:
    path.write_bytes(left)
    assert witness.version() == 0
    assert not witness.is_damaged()


def test_what_is_not_durable_is_known_until_the_next_boot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Witness(path, durable=False)) as witness:
        witness.note(7)
        assert Witness(path).version() == 7
        monkeypatch.setattr(witness_module, "_boot", lambda: 1)
        assert Witness(path).version() == 0
        assert not witness.is_damaged()
