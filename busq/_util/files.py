# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

# Names of what processes have open, by links that lead there, though a file may stand at their end.
_SYSTEM = re.compile(r"/dev/(stdin|stdout|stderr|fd/)|/proc/")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Let a file be written under a hidden name beside `path`, which it takes when it is whole; else it goes.

    The hidden name can't be foreseen, so that in a folder where others may write none of them has a link there.  A
    device, a pipe, and what leads to one, as /dev/stdout, stay where they are and are written into.

    Errors: OSError, which names `path` where the file could not be made or could not take its place.
    """
    if leads_out(path):
        with naming(path), open(path, "ab") as stream:  # appended to: /dev/stdout may be a file that has a beginning
            yield stream
        return
    folder, name = os.path.split(os.path.abspath(path))
    hidden = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    with naming(path, hidden):
        try:
            with open(hidden, "xb") as file:  # never through a link; the mode that any new file gets
                yield file
            os.replace(hidden, os.path.join(folder, name))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden)


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], hidden: str | None = None) -> Iterator[None]:
    """Let errors that name no file, or the hidden one, name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, hidden):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def leads_out(path: str | os.PathLike[str]) -> bool:
    """Whether this is no file that another one could replace: a device, a pipe, or a name of what a process has open.

    >>> leads_out("/dev/null"), leads_out("/dev/stdout"), leads_out("/dev/shm/report.html")
    (True, True, False)
    """
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return False
    is_file_of_ours = stat.S_ISREG(kind) and not _SYSTEM.match(os.path.abspath(path))
    return not is_file_of_ours and not stat.S_ISDIR(kind)


def check_place(path: str | os.PathLike[str]) -> None:
    """Find out, before long work, whether a file or a folder can be made: in the nearest folder that is there.

    Errors: OSError, which names `path`.
    """
    if leads_out(path):
        return
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
