# SPDX-License-Identifier: Apache-2.0
"""An exception at any boundary inside any public call, or from the handler of a signal, leaves the bus whole.

`python tests/core/boundaries.py --exceptions 1000000` does the same for as long as one likes.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from boundaries import all_kinds, public_methods
from conftest import TESTS

pytestmark = pytest.mark.timeout(900)  # seconds on a quiet machine


def disturb(seed: int, *options: str) -> str:
    """Run the harness by itself, where it owns signals and trace functions; what it prints."""
    command = [sys.executable, str(TESTS / "core" / "boundaries.py"), "--seed", str(seed), *options]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
    return done.stdout


def test_every_public_method_is_disturbed() -> None:
    """A new method needs a call of it in calls.py."""
    disturbed = {f"{kind.of}.{op.method}" for kind in all_kinds("bus1,recording,fifo") for op in kind.ops}
    assert public_methods() - disturbed == set()


def test_an_exception_at_any_boundary_of_any_call_leaves_the_bus_whole(seed: int) -> None:
    print(disturb(seed, "--exceptions", "2000", "--signals", "0", "--of", "bus1,recording,fifo,sync"))


def test_a_raising_signal_handler_at_any_microsecond_leaves_the_bus_whole(seed: int) -> None:
    print(disturb(seed, "--exceptions", "1500", "--signals", "1", "--of", "bus1,fifo,token"))
