# SPDX-License-Identifier: Apache-2.0
"""reStructuredText out of busq's docstrings, which are written for `help()`: plain text, names in single backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from extension import modules
from extension.pages import escape

LABELS = ("Parameters", "Errors", "Returns", "Cost", "Known facts")
LABEL = re.compile(rf"({'|'.join(LABELS)}): ")
SPAN = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of a docstring in place."""
    if "============  " in "\n".join(lines):  # written in reStructuredText, tables and all
        return
    lines[:] = [line for block in _blocks(lines) for line in (*_shown(block, name), "")]


def signature(
    app: Any, what: str, name: str, obj: Any, options: Any, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Show the value of a default that only marks what was not given."""
    return (re.sub(r"_Unsaid\w+\((.*?)\)", r"\1", arguments) if arguments else arguments), returned


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs: lines up to an empty one, or to a label."""
    block: list[str] = []
    for line in [*lines, ""]:
        if block and LABEL.match(line):
            yield block
            block = []
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _shown(block: list[str], name: str) -> list[str]:
    if block[0].lstrip().startswith(">>>"):
        return block
    if block[0].startswith(" "):
        return ["::", "", *block]
    if block[0].startswith(("- ", "* ", "| ")):
        return ["::", "", *(f"   {line}" for line in block)]
    text = " ".join(line.strip() for line in block)
    label = LABEL.match(text)
    if label is None:
        return [prose(text, name)]
    items = re.split(r"; (?=`)", text[label.end() :]) if label[1] == "Parameters" else []
    if len(items) < 2:
        return [f"**{label[1]}:** {prose(text[label.end() :], name)}"]
    return [f"**{label[1]}:**", "", *(_parameter(item.rstrip("."), name) for item in items)]


def _parameter(item: str, name: str) -> str:
    word, _, rest = item.strip("`").partition("`")
    return f"- ``{word}``{prose(rest, name)}"


def prose(text: str, name: str = "busq") -> str:
    """Return a paragraph of a docstring: names become links where they name something public."""
    parts = []
    end = 0
    for span in SPAN.finditer(text):
        parts += [escape(text[end : span.start()]), _code(span.group(0).strip("`"), name)]
        end = span.end()
        if end < len(text) and (text[end].isalnum() or text[end] == "_"):
            parts.append("\\ ")
    return "".join(parts) + escape(text[end:])


def _code(text: str, name: str) -> str:
    text = " ".join(text.split())
    target = modules.public_name(text, name)
    return f":py:obj:`{text} <{target}>`" if target else f"``{text}``"
