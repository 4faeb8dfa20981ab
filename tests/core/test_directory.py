# SPDX-License-Identifier: Apache-2.0
"""BUSQ_DIR names the directory of buses; where it names none, that is the error, not that there is no such bus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

import busq


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is not there, and is where buses are looked for."""
    path = tmp_path / "nowhere"
    monkeypatch.setenv("BUSQ_DIR", str(path))
    return path


@pytest.mark.parametrize(
    "call",
    [
        lambda: busq.Bus.open("orders"),
        lambda: busq.Bus.create("orders"),
        lambda: busq.Bus.create("orders", exist_ok=True),
        lambda: busq.Bus.unlink("orders"),
    ],
    ids=["open", "create", "create or open", "unlink"],
)
def test_a_missing_directory_is_named_with_what_to_do(missing: Path, call: Callable[[], Any]) -> None:
    with pytest.raises(FileNotFoundError, match=r"BUSQ_DIR names '.*nowhere', and there is no such directory: make it"):
        call()
    assert not missing.exists()


@pytest.mark.parametrize(
    "command",
    [["ls"], ["info", "orders"], ["doctor"], ["doctor", "orders"], ["gc"], ["rm", "orders"]],
    ids=" ".join,
)
def test_every_command_says_so(missing: Path, command: list[str]) -> None:
    done = run_command(*command)
    assert done.exit_code != 0
    assert f"BUSQ_DIR names '{missing}', and there is no such directory" in " ".join(done.output.split())


def test_a_bus_that_is_not_in_a_directory_that_is_there_is_no_such_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSQ_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match='there is no bus "orders"'):
        busq.Bus.open("orders")


def test_a_directory_that_goes_while_a_bus_is_open_is_named_by_those_who_kept_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "buses"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("BUSQ_DIR", str(place))
    reopen, arguments = busq.Bus.create("orders", peers=1, capacity=1, arena=4096).__reduce__()
    busq.Bus.unlink("orders")
    place.rmdir()
    with pytest.raises(FileNotFoundError, match=r'there is no directory ".*buses" for buses: make it'):
        reopen(*arguments)
