# SPDX-License-Identifier: Apache-2.0
"""The notebooks of the documentation as their files are: nothing in them but their text, what they print and draw.

tests/audit/spark/test_notebook.py runs them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))

from run_notebooks import NOTEBOOKS, cleaned, written

PATHS = re.compile(r"(?<![\w.`/])/(?:tmp|home|root|usr|var|dev|opt|work)/")
BYTES_MAX = 100_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_nothing_of_the_machine_that_ran_it(path: Path) -> None:
    text = path.read_text()
    assert written(cleaned(json.loads(text))) == text, "python docs/run_notebooks.py writes it as it should be"
    assert not PATHS.findall(text)
    assert len(text) < BYTES_MAX


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_ends_at_a_picture(path: Path) -> None:
    outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", ())]
    assert "image/png" in outputs[-1]["data"]


def test_counters_times_html_and_warnings_are_not_kept() -> None:
    run = {
        "id": "one",
        "cell_type": "code",
        "source": ["1 +\n", "1"],
        "metadata": {},
        "execution_count": 7,
        "outputs": [
            {"output_type": "stream", "name": "stderr", "text": "a warning"},
            {
                "output_type": "execute_result",
                "execution_count": 7,
                "metadata": {},
                "data": {"text/plain": ["2"], "text/html": "<b>2</b>"},
            },
        ],
    }
    (cell,) = cleaned({"cells": [run], "metadata": {"widgets": {}}})["cells"]
    assert cell["source"] == "1 +\n1"
    assert cell["execution_count"] is None
    assert cell["outputs"] == [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": "2"}}]
