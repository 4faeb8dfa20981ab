# SPDX-License-Identifier: Apache-2.0
"""The directory in which the files of buses are."""

from __future__ import annotations

import errno
import os
import stat

_ELSEWHERE = (
    "make a directory that only this user may enter (mkdir -m 700), in a tmpfs if there is one, and name it in BUSQ_DIR"
)


def read_only(error: OSError, directory: str) -> OSError:
    """Return the error of making a file where the file system is read-only."""
    return OSError(error.errno, f"{error.strerror}: {directory} can't be written; {_ELSEWHERE}")


def default_directory() -> str:
    """Return the directory of buses: $BUSQ_DIR, or a private one of this user in /dev/shm, made if it is not there.

    Errors: FileNotFoundError if BUSQ_DIR names none, PermissionError if another user made the default one.
    """
    chosen = os.environ.get("BUSQ_DIR")
    if chosen:
        if not os.path.lexists(chosen):
            raise FileNotFoundError(
                errno.ENOENT,
                f"BUSQ_DIR names {chosen!r}, and there is no such directory: make it (mkdir -m 700), or unset BUSQ_DIR",
            )
        return chosen
    path = f"/dev/shm/busq-{os.geteuid()}"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(
                errno.EACCES,
                f"{path} has owner {status.st_uid} and mode {status.st_mode:o}: expected a directory of user "
                f"{os.geteuid()} with mode 0700; remove it, or set BUSQ_DIR",
            ) from None
    except OSError as error:
        raise type(error)(error.errno, f"{path} can't be made: {error.strerror}; {_ELSEWHERE}") from None
    return path
