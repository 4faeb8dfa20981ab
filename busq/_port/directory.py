# SPDX-License-Identifier: Apache-2.0
"""The directory in which the files of buses are."""

from __future__ import annotations

import errno
import os
import stat


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
    return path
