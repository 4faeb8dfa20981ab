# SPDX-License-Identifier: Apache-2.0
"""Writing reStructuredText: escaping, headings, and files that change only where their content does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

GENERATED = Path("reference") / "generated"


def escape(text: str) -> str:
    """Return text that reStructuredText shows as it is."""
    return re.sub(r"([\\*`|])|(?<=\w)_(?!\w)", lambda found: "\\" + found.group(0), text)


def heading(title: str, mark: str = "=") -> list[str]:
    """Return a heading."""
    return [title, mark * len(title), ""]


def indented(lines: Iterable[str], by: int = 3) -> list[str]:
    """Return lines moved to the right; empty ones stay empty."""
    return [" " * by + line if line else "" for line in lines]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> list[str]:
    """Return a table of cells that are reStructuredText already."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (columns, *rows):
        lines += [("   * - " if not place else "     - ") + cell for place, cell in enumerate(row)]
    return [*lines, ""]


def write(path: Path, lines: Iterable[str]) -> None:
    """Write a page; an unchanged one is left alone, so that Sphinx does not read it again."""
    text = "\n".join(lines).rstrip() + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
