# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Let a file be written under a hidden name beside `path`, which it takes when it is whole; else it goes.

    The hidden name can't be foreseen, so that in a folder where others may write none of them has a link there.

    Errors: OSError, which names `path` where the file could not be made or could not take its place.
    """
    folder, name = os.path.split(os.path.abspath(path))
    hidden = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            with open(hidden, "xb") as file:  # never through a link; the mode that any new file gets
                yield file
            os.replace(hidden, os.path.join(folder, name))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden)
    except OSError as error:
        if error.filename in (None, hidden):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def check_place(path: str | os.PathLike[str]) -> None:
    """Find out, before long work, whether a file or a folder can be made: in the nearest folder that is there.

    Errors: OSError, which names `path`.
    """
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
