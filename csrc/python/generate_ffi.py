# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the cffi module from the marked parts of the public headers.

Usage: generate_ffi.py busq.h busq_lab.h _busq.c
"""

import re
import sys
from pathlib import Path

from cffi import FFI

# What is freed has an owner in Python before the core makes it: a cell, freed with what stands in it.
FREE = re.compile(r"void (\w+_free)\((\w+) \*\w+\);")
CELL = "void {0}_at({1} **cell)"
# Does nothing; a partial of it keeps an owner alive for as long as what it owns, and runs no Python code at the end.
KEEP = "void busq_keep(const void *owner, const void *owned)"
MARKED = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)


def main(headers: list[str], output: str) -> None:
    """Collect the marked declarations and let cffi generate."""
    parts: list[str] = []
    for header in headers:
        marked = MARKED.findall(Path(header).read_text())
        if not marked:
            raise SystemExit(f"{header}: no part between 'cffi: begin' and 'cffi: end'")
        parts += marked
    declared = "\n".join(parts)
    cells = {name: CELL.format(name, kind) for name, kind in FREE.findall(declared)}
    ffi = FFI()
    ffi.cdef("\n".join([declared, f"{KEEP};", *(f"{cell};" for cell in cells.values())]))
    bodies = [f"static {cell} {{ {name}(*cell); *cell = 0; }}" for name, cell in cells.items()]
    keep = f"static {KEEP} {{ (void)owner, (void)owned; }}"
    ffi.set_source(
        "busq._native._busq", "\n".join([*(f'#include "{Path(header).name}"' for header in headers), keep, *bodies])
    )
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
