# SPDX-License-Identifier: Apache-2.0
"""What busq's documentation takes from the code: pages made before Sphinx reads, docstrings, and a last look at links.

| module       | what it makes                                                                             |
|--------------|-------------------------------------------------------------------------------------------|
| `modules`    | a page of the Python reference for each public module                                     |
| `docstrings` | reStructuredText out of busq's docstrings                                                 |
| `commands`   | the reference of the command line, from Click                                             |
| `header`     | the reference of the C interface, from busq.h and busq_lab.h                              |
| `tables`     | the orders, the trace's columns and kinds of events, the checks of an audit               |
| `crossings`  | the table of features and of what may happen to them, which the tests run                 |
| `shapes`     | the keys of what `--json` prints, from what it does print                                 |
| `pictures`   | the pictures that `busq diagram` draws                                                    |
| `notebooks`  | a page out of a notebook, with what it printed and drew                                   |
| `site`       | llms.txt, and the check that every link inside the site leads somewhere                   |
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import busq
from extension import commands, crossings, docstrings, header, modules, notebooks, pictures, shapes, site, tables
from extension.pages import GENERATED


def _sources(folder: Path) -> str:
    """Whatever the pages are made from: the installed package, the headers, and this package."""
    files = [folder.parent / "csrc" / name for name in header.HEADERS]
    for top in (Path(busq.__file__).parent, Path(__file__).parent, crossings.TESTS / "crossings"):
        files += sorted(path for path in top.rglob("*") if path.suffix in (".py", ".so"))
    told = hashlib.sha256()
    for path in files:
        told.update(str(path).encode())
        told.update(path.read_bytes())
    return told.hexdigest()


def generate(app: Sphinx) -> None:
    """Write every page and picture that is made from the code, unless that was done for the code as it is."""
    stamp = app.srcdir / GENERATED / ".made-from"
    sources = _sources(app.srcdir)
    if stamp.exists() and stamp.read_text() == sources:
        return
    for room in (modules, commands, header, tables, crossings, shapes, pictures):
        room.generate(app.srcdir)
    stamp.write_text(sources)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect everything with Sphinx."""
    app.add_source_suffix(notebooks.SUFFIX, "notebook")
    app.add_source_parser(notebooks.Notebook)
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-docstring", docstrings.process)
    app.connect("autodoc-process-signature", docstrings.signature)
    app.connect("missing-reference", modules.resolve)
    app.connect("build-finished", site.finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
