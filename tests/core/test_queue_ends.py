# SPDX-License-Identifier: Apache-2.0
"""What a queue leaves where its process ends, or where it could not be made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S, TESTS, fresh_python

import busq

ON_A_BUS = """
import multiprocessing, sys
import busq

def use():
    global queue
    queue = busq.{kind}(bus=busq.Bus.open(sys.argv[1]))
    queue.put("one"), queue.put("two"), queue.get()

if {in_child}:
    child = multiprocessing.get_context("fork").Process(target=use)
    child.start(), child.join()
    sys.exit(child.exitcode)
use()
"""


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
@pytest.mark.parametrize("in_child", [False, True])
def test_a_queue_goes_with_its_process_also_on_a_bus_that_stays(
    make_bus: Callable[..., busq.Bus], kind: str, in_child: bool
) -> None:
    bus = make_bus(peers=3)
    for _ in range(2):  # the second one finds all places free again
        done = fresh_python(ON_A_BUS.format(kind=kind, in_child=in_child), bus.name)
        assert (done.returncode, done.stderr) == (0, "")


WITHOUT_DESCRIPTORS = """
import os, resource
import busq
busq.Queue  # loads it
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken, made = [], None
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
while made is None:
    try:
        made = busq.Queue()
    except OSError:
        pass
    os.close(taken.pop())  # here, where what was half made is gone
print(64 - len(taken) > 6, [name for name in os.listdir(os.environ["BUSQ_DIR"]) if not name.startswith(".")] != [])
"""


def test_a_queue_for_which_there_is_no_descriptor_is_one_error() -> None:
    done = fresh_python(WITHOUT_DESCRIPTORS)
    assert done.stdout.split() == ["True", "True"]
    assert not done.stderr


def test_kills_over_queues_lose_nothing() -> None:
    """A few of those of tests/core/strife_queues.py, half of them on a bus with a small arena."""
    command = [sys.executable, TESTS / "core" / "strife_queues.py", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "20 kills: " in done.stdout, done.stderr
