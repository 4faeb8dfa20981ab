# SPDX-License-Identifier: Apache-2.0
"""Buses whose names are taken away while they are used, and directories in which none can be made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Child, run_command, wait_until

import busq


def wipe(directory: Path) -> None:
    """As logind does at the end of a session, and scripts that clean up."""
    for path in directory.iterdir():
        path.unlink()


def doctor(*names: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run_command("doctor", "--json", *names).stdout)
    return found


def test_who_joins_a_bus_that_lost_its_name_is_warned(own_directory: Path) -> None:
    with busq.Bus.create("orders") as bus, bus.join("ann"):
        wipe(own_directory)
        with pytest.warns(RuntimeWarning, match="'orders' has lost its name in .*RemoveIPC"):
            bus.join("bob").close()


def test_a_namesake_of_a_bus_in_use_is_not_made_in_silence(own_directory: Path) -> None:
    with busq.Bus.create("orders", exist_ok=True) as bus, bus.join("ann"):
        wipe(own_directory)
        with pytest.warns(RuntimeWarning, match=f"another one of that name is in use by process {os.getpid()}"):
            busq.Bus.create("orders", exist_ok=True).close()


def hold(name: str) -> None:
    with busq.Bus.open(name).join("holder"):
        time.sleep(1000)


def test_the_doctor_sees_buses_that_lost_their_names(own_directory: Path, fork: Callable[..., Child]) -> None:
    with busq.Bus.create("orders") as bus:
        child = fork(hold, "orders")
        wait_until(lambda: bus.peers() == ["holder"])
    assert doctor()["ok"]
    wipe(own_directory)
    found = doctor()
    assert not found["ok"]
    (report,) = found["buses"]  # type: ignore[misc]
    assert (report["name"], report["pids"], report["findings"][0]["kind"]) == ("orders", [child.pid], "lost")
    child.kill()
    assert doctor()["ok"]


@pytest.mark.parametrize("how", ["unlink", "rm", "temporary"])
def test_a_name_that_was_removed_by_busq_is_not_missed(own_directory: Path, how: str) -> None:
    with warnings.catch_warnings(), busq.Bus.create("orders", temporary=how == "temporary") as bus:
        warnings.simplefilter("error")
        if how == "rm":
            assert run_command("rm", "orders").exit_code == 0
        else:
            busq.Bus.unlink("orders")
        bus.join("ann").close()
        with busq.Bus.create("orders", exist_ok=True) as other:
            other.join("ann").close()
            assert doctor()["ok"]


READ_ONLY = """
import os, sys, busq
os.environ.pop("BUSQ_DIR", None)
try:
    busq.Bus.create("orders")
except OSError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("is_there", [False, True], ids=["without a directory", "with one"])
def test_a_read_only_shared_memory_names_the_variable(tmp_path: Path, is_there: bool) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare")
    make = f"mkdir -m 700 /dev/shm/busq-{os.geteuid()} && " if is_there else ""
    script = f'mount -t tmpfs tmpfs /dev/shm && {make}mount -o remount,ro /dev/shm && exec "$0" -c "$1"'
    command = ["unshare", "-m", "sh", "-c", script, sys.executable, READ_ONLY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    if done.returncode == 1 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip("may not mount")
    assert done.stderr == ""
    assert "Read-only file system" in done.stdout
    assert "name it in BUSQ_DIR" in done.stdout
