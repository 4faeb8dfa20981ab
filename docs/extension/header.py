# SPDX-License-Identifier: Apache-2.0
"""The reference of the C interface: the declarations of the public headers, with the comments that stand at them.

A header keeps a form: an essay at its head, then sections between the marks for cffi, each with a comment of its own
that begins with its title; a comment before a declaration, or behind it on the same line, is about that declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from extension.docstrings import prose
from extension.pages import GENERATED, heading, indented, write

TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<code>[^/]+|/(?!\*))", re.DOTALL)
SECTION = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)
FUNCTION = re.compile(r"^[\w\s*]+?\b(?P<name>busq_\w+)\(.*\)$", re.DOTALL)


@dataclass
class Item:
    """A declaration, a member of one, or a comment that stands for itself."""

    code: str
    comments: list[str] = field(default_factory=list)
    members: list[Item] = field(default_factory=list)


def _plain(comment: str) -> str:
    return re.sub(r"\n\s*\* ?", "\n", comment).strip()


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    """Comments and bits of code, each with the number of its first line."""
    line = 0
    for token in TOKEN.finditer(text):
        if token["comment"] is not None:
            yield "comment", _plain(token["comment"]), line
        else:
            here = line
            for bit in re.split(r"([;{},\n])", token["code"]):
                if bit.strip() or bit == "\n":
                    yield ("newline" if bit == "\n" else "code"), bit, here
                here += bit.count("\n")
        line += token.group(0).count("\n")


def items(text: str) -> list[Item]:
    """Return the declarations of a section, one after the other; bodies become members."""
    text = re.sub(r"^#define (\w+) (\S+)", r"define \1;", text, flags=re.MULTILINE)
    top: list[Item] = []
    body: list[Item] | None = None
    waiting: list[str] = []
    code = ""
    last: Item | None = None
    last_line = depth = 0
    for kind, piece, line in _pieces(text):
        if kind == "newline":
            continue
        if kind == "comment":
            if last is not None and line == last_line and not code.strip():
                last.comments.append(piece)
            else:
                waiting.append(piece)
            continue
        depth += piece.count("(") - piece.count(")")
        if piece == "{":
            last = Item(code.strip(), waiting)
            top.append(last)
            body, code, waiting = last.members, "", []
        elif piece == "}" or (piece in ";," and not depth and (body is not None or piece == ";")):
            if code.strip() and body is None and top and top[-1].code.endswith(("typedef struct", "typedef enum")):
                top[-1].code += f" {code.strip()}"
            elif code.strip():
                last = Item(" ".join(code.split()), waiting)
                (top if body is None else body).append(last)
                waiting, last_line = [], line
            if piece == "}":
                body = None
                if waiting and last:
                    last.comments += waiting
                    waiting = []
            code = ""
        else:
            code += piece if piece != "," else ", "
            last_line = line
    return top


def _prose(text: str) -> str:
    """A paragraph of a comment: what is declared in C is set as code."""
    return prose(re.sub(r"\*?\b(?:busq_|BUSQ_|CLOCK_)\w+(?:\(\))?|\*\w+p\b", r"`\g<0>`", " ".join(text.split())))


def _about(item: Item) -> list[str]:
    lines: list[str] = []
    for comment in item.comments:
        for paragraph in comment.split("\n\n"):
            is_table = any(re.match(r" {2,}\S", line) for line in paragraph.splitlines()[1:])
            lines += ["::", "", *indented(paragraph.splitlines())] if is_table else [_prose(paragraph)]
            lines.append("")
    return lines


def _member(item: Item, kind: str) -> list[str]:
    return [f".. c:{kind}:: {item.code}", "", *indented(_about(item)), ""]


def _declared(item: Item, known: set[str]) -> list[str]:
    kind, _, name = item.code.removeprefix("typedef ").partition(" ")
    if kind in ("enum", "struct") and item.members:
        if name in known:
            return []
        known.add(name)
        lines = [f".. c:{kind}:: {name or '@constants'}", "", *indented(_about(item))]
        member = "enumerator" if kind == "enum" else "member"
        return lines + [line for one in item.members for line in indented(_member(one, member))]
    if kind == "struct":
        opaque = item.code.split()[-1]
        if opaque in known or f"struct {opaque} {{" in SOURCE:
            return []
        known.add(opaque)
        return [f".. c:struct:: {opaque}", "", *indented(_about(item)), ""]
    if kind == "define":
        return [f".. c:macro:: {name}", "", *indented(_about(item)), ""]
    if FUNCTION.match(item.code):
        return [f".. c:function:: {item.code}", "", *indented(_about(item)), ""]
    raise ValueError(f"a public header: {item.code!r} is neither an enum nor a struct nor a function")


HEADERS = ("busq.h", "busq_lab.h")
SOURCE = ""


def generate(folder: Path) -> None:
    """Write the page of the C interface."""
    global SOURCE
    SOURCE = "\n".join((folder.parent / "csrc" / name).read_text() for name in HEADERS)
    essay = _plain(re.search(r"#define BUSQ_H\n/\*(.*?)\*/", SOURCE, re.DOTALL)[1])  # type: ignore[index]
    lines = [".. _c-api:", "", *heading("C interface")]
    lines += ["What ``csrc/busq.h`` declares and, from *Observers* on, ``csrc/busq_lab.h``.", ""]
    lines += [line for text in essay.split("\n\n") for line in (_prose(text), "")]
    known: set[str] = set()
    for number, section in enumerate(SECTION.findall(SOURCE)):
        found = items(section)
        title = "Buses, peers and messages"
        if number:
            introduction = found[0].comments.pop(0)
            title, _, rest = introduction.partition(":")
            lines += [*heading(title, "-"), *_about(Item("", [rest.strip()[:1].upper() + rest.strip()[1:]]))]
        else:
            lines += heading(title, "-")
        for item in found:
            lines += _declared(item, known)
    write(folder / GENERATED / "c.rst", lines)
