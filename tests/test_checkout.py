# SPDX-License-Identifier: Apache-2.0
"""Work in a checkout: Python started in its root, and the tasks that CONTRIBUTING.md names."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import ROOT

TASK = ROOT / ".ci" / "task"


def test_sources_without_a_core_say_in_one_line_what_to_do() -> None:
    # Without the finder of an editable installation, which is an object: Python's own are classes.
    code = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if isinstance(finder, type)]
sys.path[0] = ""
import busq
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: busq was imported from its sources ({ROOT}/busq/_native), which hold no")
    assert ".ci/task install" in last


def test_the_tasks_that_contributing_names_are_there() -> None:
    if not TASK.exists():
        pytest.skip("needs a checkout")
    listed = subprocess.run([TASK], capture_output=True, text=True, check=True).stdout
    there = {line.split()[0] for line in listed.splitlines()}
    named = set(re.findall(r"`\.ci/task ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named
    assert named <= there


def test_an_unknown_task_is_a_usage_error() -> None:
    if not TASK.exists():
        pytest.skip("needs a checkout")
    done = subprocess.run([TASK, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no task 'nonsense'" in done.stderr
