# SPDX-License-Identifier: Apache-2.0
"""An exception at any boundary inside any public call, or from the handler of a signal, leaves the bus whole.

`python tests/core/boundaries.py --exceptions 1000000` does the same for as long as one likes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from boundaries import all_kinds, public_methods
from conftest import TESTS

from busq._port import core as _core

pytestmark = pytest.mark.timeout(900)  # seconds on a quiet machine
WAYS = [
    pytest.param("", id="accelerator", marks=pytest.mark.skipif(_core._fast is None, reason="there is none")),
    pytest.param("1", id="cffi"),
]


def disturb(without_accelerator: str, seed: int, *options: str) -> str:
    """Run the harness by itself, where it owns signals and trace functions; what it prints."""
    command = [sys.executable, str(TESTS / "core" / "boundaries.py"), "--seed", str(seed), *options]
    environment = os.environ | {"BUSQ_NO_ACCELERATOR": without_accelerator}
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    return done.stdout


def test_every_public_method_is_disturbed() -> None:
    """A new method needs a call of it in calls.py."""
    disturbed = {f"{kind.of}.{op.method}" for kind in all_kinds("bus1,recording,fifo") for op in kind.ops}
    assert public_methods() - disturbed == set()


@pytest.mark.parametrize("without_accelerator", WAYS)
def test_an_exception_at_any_boundary_of_any_call_leaves_the_bus_whole(without_accelerator: str, seed: int) -> None:
    print(
        disturb(without_accelerator, seed, "--exceptions", "2000", "--signals", "0", "--of", "bus1,recording,fifo,sync")
    )


@pytest.mark.parametrize("without_accelerator", WAYS)
def test_a_raising_signal_handler_at_any_microsecond_leaves_the_bus_whole(without_accelerator: str, seed: int) -> None:
    print(disturb(without_accelerator, seed, "--exceptions", "1500", "--signals", "1", "--of", "bus1,fifo,token"))
