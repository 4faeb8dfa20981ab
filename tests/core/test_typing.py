# SPDX-License-Identifier: Apache-2.0
"""The types of the public interface, as mypy and pyright see them in an installed busq."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from conftest import TESTS

import busq

ACCEPTED, REFUSED = TESTS / "core" / "typed" / "accepted.py", TESTS / "core" / "typed" / "refused.py"


Place = tuple[str, int]  # a file and a line


def refused_by_mypy(directory: Path) -> set[Place]:
    """Asked where no settings of this project are found, for the oldest Python that busq knows."""
    options = ["--strict", "--python-version", "3.10", "--cache-dir", str(directory), "--no-error-summary"]
    said = ask("mypy", *options, str(ACCEPTED), str(REFUSED), directory=directory)
    return {(name, int(line)) for name, line in re.findall(r"([a-z]+\.py):(\d+): error:", said)}


def refused_by_pyright(directory: Path) -> set[Place]:
    """In strict mode, which the first lines of the files ask for."""
    options = ["--outputjson", "--pythonpath", sys.executable]
    said = json.loads(ask("pyright", *options, str(ACCEPTED), str(REFUSED), directory=directory))
    found = [one for one in said["generalDiagnostics"] if one["severity"] == "error"]
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in found}


def ask(checker: str, *arguments: str, directory: Path) -> str:
    command = [sys.executable, "-m", checker, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode in (0, 1), f"{checker} failed"
    return done.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_exactly_the_wrong_lines_are_refused(checker: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"needs {checker}, which is not installed")
    lines = REFUSED.read_text().splitlines()
    marked = {(REFUSED.name, number) for number, line in enumerate(lines, 1) if line.endswith("  # refused")}
    assert len(marked) > 30
    assert {"mypy": refused_by_mypy, "pyright": refused_by_pyright}[checker](tmp_path) == marked


def test_annotations_can_be_read_at_run_time() -> None:
    """As libraries do that check or document calls."""
    for name in ("send", "send_many", "recv", "recv_many", "fileno", "close"):
        assert "return" in typing.get_type_hints(getattr(busq.Peer, name))
