# SPDX-License-Identifier: Apache-2.0
"""Run the notebooks of the documentation, and keep in them what they print and draw: python docs/run_notebooks.py

It needs the extras spark and notebook.  What is kept is text and pictures: no times, no counters, nothing of the
machine.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*/*.ipynb"))
PATIENCE_S = 600  # for a cell
COLOURS = 64  # of a picture


def executed(path: Path, folder: Path) -> dict[str, Any]:
    """Return a notebook as it is after all of its cells ran in a folder; CellExecutionError if one of them fails."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=PATIENCE_S, record_timing=False, resources=where).execute()
    return cleaned(json.loads(nbformat.writes(notebook)))


def cleaned(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with nothing in it but its text, what it prints and what it draws."""
    cells = []
    for cell in notebook["cells"]:
        cell = cell | {"source": text(cell["source"])}
        if cell["cell_type"] == "code":
            shown = [one for one in map(_output, cell["outputs"]) if one]
            cell |= {"execution_count": None, "outputs": shown}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _output(output: dict[str, Any]) -> dict[str, Any] | None:
    """Return an output without what repeats something or means nothing: HTML beside text, counters."""
    if output["output_type"] == "stream":
        return output | {"text": text(output["text"])} if output["name"] == "stdout" else None
    data = output["data"]
    picture = {"image/png": smaller(data["image/png"])} if "image/png" in data else {}
    kept = picture or {"text/plain": text(data["text/plain"])}
    return {"output_type": "display_data", "metadata": {}, "data": kept}


def smaller(picture: str) -> str:
    """Return a picture in base64 with fewer colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    if image.mode == "P":
        return picture
    written = io.BytesIO()
    image.convert("RGB").quantize(COLOURS).save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def text(source: str | list[str]) -> str:
    """Return text that may stand in a notebook as a list of lines."""
    return source if isinstance(source, str) else "".join(source)


def written(notebook: dict[str, Any]) -> str:
    """Return a notebook as its file has it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Run all of them."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(written(executed(path, Path(folder))))


if __name__ == "__main__":
    main()
