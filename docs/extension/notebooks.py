# SPDX-License-Identifier: Apache-2.0
"""Notebooks as pages: text, code, and what the code printed and drew when it was run last.

A notebook is a source like any other, so it stands beside the pages, in their table of contents, and is copied to the
site.  Pictures become files beside the other generated ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.sphinx_ import Parser

SUFFIX = ".ipynb"
PICTURES = Path("pictures") / "generated"


class Notebook(Parser):
    """Reads a notebook as a page of the documentation."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Turn the notebook into Markdown, and that into a document."""
        notebook, env = json.loads(inputstring), document.settings.env
        draw(notebook, Path(env.srcdir), env.docname)
        super().parse("\n".join(markdown(notebook, env.docname)), document)


def markdown(notebook: dict[str, Any], name: str) -> Iterator[str]:
    """Give the lines of a page; `name` is that of the document, which its pictures are called after."""
    for place, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown":
            yield from (_text(cell["source"]), "")
            yield from () if place else (f"{{download}}`Download the notebook </{name}{SUFFIX}>`.", "")
            continue
        yield from _block("python", _text(cell["source"]))
        for output in cell["outputs"]:
            yield from _shown(output, cell, name)


def draw(notebook: dict[str, Any], folder: Path, name: str) -> None:
    """Write the pictures of a notebook into a folder of sources."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                path = folder / _picture(name, cell)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(_text(output["data"]["image/png"])))


def _picture(name: str, cell: dict[str, Any]) -> str:
    return f"{PICTURES.as_posix()}/{name.replace('/', '-')}-{cell['id']}.png"


def _shown(output: dict[str, Any], cell: dict[str, Any], name: str) -> Iterator[str]:
    """Give the lines that show an output; the metadata of a cell may describe its picture in words: alt."""
    data = output.get("data", {})
    if "image/png" in data:
        yield from (f"![{cell['metadata'].get('alt', 'a picture')}](/{_picture(name, cell)})", "")
    else:
        yield from _block("text", _text(output.get("text", data.get("text/plain", ""))))


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _block(language: str, text: str) -> Iterator[str]:
    yield from (f"```{language}", text.rstrip(), "```", "")
