# SPDX-License-Identifier: Apache-2.0
"""The notebooks of the documentation run from the first cell to the last, and still print what they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

pytest.importorskip("nbclient", reason="needs nbclient: pip install 'busq[notebook]'")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install 'busq[notebook]'")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'busq[notebook]'")
sys.path.insert(0, str(ROOT / "docs"))

from run_notebooks import NOTEBOOKS, executed


def shown(notebook: dict[str, Any]) -> dict[str, list[str]]:
    """What each cell shows; where that differs from run to run, its kind."""
    found = {}
    for cell in notebook["cells"]:
        outputs = [output.get("data", output) for output in cell.get("outputs", ())]
        texts = [data.get("text/plain", data.get("text", "a picture")) for data in outputs]
        found[cell["id"]] = (
            [str(bool(text)) for text in texts] if "varies" in cell["metadata"].get("tags", ()) else texts
        )
    return found


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_what_its_page_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)
    assert shown(executed(path, tmp_path)) == shown(json.loads(path.read_text()))
