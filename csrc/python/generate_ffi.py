# SPDX-License-Identifier: Apache-2.0
"""Write the C source of the cffi module from the marked parts of busq.h.

Usage: generate_ffi.py busq.h _busq.c
"""

import re
import sys
from pathlib import Path

from cffi import FFI

MARKED = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)


def main(header: str, output: str) -> None:
    """Collect the marked declarations and let cffi generate."""
    parts = MARKED.findall(Path(header).read_text())
    if not parts:
        raise SystemExit(f"{header}: no part between 'cffi: begin' and 'cffi: end'")
    ffi = FFI()
    ffi.cdef("\n".join(parts))
    ffi.set_source("busq._native._busq", '#include "busq.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
