# SPDX-License-Identifier: Apache-2.0
"""Write the texts of methods written in C, as macros, from the docstrings of the public classes in Python.

Usage: generate_texts.py PREFIX=MODULE.py ... texts.h

BUSQ_TEXT_<PREFIX><class>_<method> begins with the signature, in the form from which Python reads it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path


def main(sources: list[str], output: str) -> None:
    """Read the modules, and write the header."""
    lines = ["/* Made by generate_texts.py. */", "#ifndef BUSQ_PYTHON_TEXTS_H", "#define BUSQ_PYTHON_TEXTS_H"]
    for source in sources:
        prefix, _, module = source.partition("=")
        for name, text in _texts_of(ast.parse(Path(module).read_text())):
            lines.append(f"#define BUSQ_TEXT_{prefix}{name} {_literal(text)}")
    Path(output).write_text("\n".join([*lines, "#endif", ""]))


def _texts_of(module: ast.Module) -> Iterator[tuple[str, str]]:
    for of in module.body:
        if not isinstance(of, ast.ClassDef):
            continue
        yield of.name, _docstring(of)
        for member in of.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
                is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in member.decorator_list)
                head = "" if is_property else f"{member.name}({_parameters(member.args)})\n--\n\n"
                yield f"{of.name}_{member.name}", head + _docstring(member)


def _docstring(of: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(of, clean=False) or "")


def _parameters(given: ast.arguments) -> str:
    for one in [*given.args, *given.kwonlyargs]:
        one.annotation = None
    return "$" + ast.unparse(given)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
