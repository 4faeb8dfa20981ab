# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings, of every module that has some; those for Spark are in tests/audit/spark."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import busq

PACKAGE = Path(busq.__file__).parent
EXAMPLES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text() and "spark" not in path.parts
)


def test_no_example_is_lost_unnoticed() -> None:
    assert len(EXAMPLES) >= 154


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_examples_of_a_module_run(
    path: str, own_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.startswith("lab/proof/"):
        pytest.importorskip("z3")
    monkeypatch.chdir(tmp_path)
    name = ".".join(["busq", *Path(path).with_suffix("").parts]).removesuffix(".__init__")
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
