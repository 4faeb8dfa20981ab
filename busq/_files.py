# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Let a file be written under a hidden name beside `path`, which it takes when it is whole; else it goes.

    Nobody can foresee the hidden name, so that in a folder where others may write none of them has a link there.

    Errors: OSError, which names `path` where the file could not be made or could not take its place.
    """
    target = os.path.abspath(path)
    hidden = None
    try:
        hidden = tempfile.NamedTemporaryFile(  # noqa: SIM115
            dir=os.path.dirname(target), prefix=f".{os.path.basename(target)[:100]}.", suffix=".tmp", delete=False
        )
        with hidden as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(hidden.name, 0o666 & ~mask)
        os.replace(hidden.name, target)
    except OSError as error:
        if hidden is None or error.filename in (None, hidden.name):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    finally:
        if hidden is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden.name)
