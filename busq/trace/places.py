# SPDX-License-Identifier: Apache-2.0
"""Where files stand: paths of this machine, and URIs of the file systems that PyArrow has (`s3:`, `gs:`, `hdfs:`, ...).

`file:///logs` is the same as `/logs`.  Of other URIs, what stands behind a question mark (as
`s3://bucket/logs?endpoint_override=localhost:9000&scheme=http`) has what it takes to reach them, for all files below.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from busq.trace.errors import TraceError

__all__ = ["exists", "is_folder", "is_remote", "on_spark", "opened", "plain", "real", "size_of", "walk"]

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}  # what other programs call the schemes that PyArrow knows
_SYSTEMS: dict[tuple[str, str], Any] = {}


def is_remote(path: str) -> bool:
    """Return whether a path is a URI of something else than this machine's files.

    >>> is_remote("s3://bucket/logs"), is_remote("logs/run=1"), is_remote("file:///logs")
    (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier() and scheme != "file"


def plain(path: str) -> str:
    """Return a path without `file:`, and a URI without how to reach it; that is remembered.

    >>> plain("file:///logs/a%20b"), plain("logs")
    ('/logs/a b', 'logs')
    """
    if path.startswith("file:/"):
        return unquote(urlsplit(path).path)
    if is_remote(path):
        _system(path)
        return path.partition("?")[0].rstrip("/")
    return path


def _system(path: str) -> Any:
    """Return the file system of a URI; TraceError if PyArrow has none."""
    from pyarrow import fs

    parts = urlsplit(path)
    scheme = _SAME.get(parts.scheme, parts.scheme)
    key = (scheme, parts.netloc)
    if key not in _SYSTEMS or parts.query:
        try:
            _SYSTEMS[key], _ = fs.FileSystem.from_uri(path.replace(parts.scheme, scheme, 1))
        except (OSError, ValueError, ImportError, NotImplementedError) as error:
            raise TraceError(f"{path}: {str(error).splitlines()[0]}") from None
    return _SYSTEMS[key]


def _within(path: str) -> str:
    """Return what a file system calls the place that a URI names."""
    parts = urlsplit(path)
    bucket = parts.netloc + "/" if _SAME.get(parts.scheme, parts.scheme) in ("s3", "gs") else ""
    if bucket or parts.scheme == "mock":
        return (bucket + unquote(parts.path).lstrip("/")).rstrip("/")
    return unquote(parts.path)


def _facts(path: str) -> Any:
    return _system(path).get_file_info([_within(path)])[0]


def exists(path: str) -> bool:
    """Return whether there is anything; OSError if it can't be reached."""
    return _facts(path).type.value != 0 if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Return whether this is a folder; OSError if it can't be reached."""
    return _facts(path).type.value == 3 if is_remote(path) else os.path.isdir(path)


def size_of(path: str) -> int:
    """Return the size of a file in bytes; OSError."""
    return int(_facts(path).size or 0) if is_remote(path) else os.path.getsize(path)


def on_spark(path: str) -> str:
    """Return what Spark calls a place.

    >>> on_spark("s3://bucket/logs"), on_spark("logs")
    ('s3a://bucket/logs', 'logs')
    """
    return "s3a" + path[2:] if path.startswith("s3://") else path


def real(path: str) -> str:
    """Return a path that two names of a file have in common."""
    return path if is_remote(path) else os.path.realpath(path)


def opened(path: str) -> Any:
    """Open a file to read bytes; OSError."""
    return _system(path).open_input_file(_within(path)) if is_remote(path) else open(path, "rb")


def walk(root: str) -> Iterator[str]:
    """Give all files below a folder, in the order of their names, but for those that are hidden; OSError.

    Folders behind symbolic links are searched last, each one once.
    """
    if is_remote(root):
        yield from _walk_far(root)
        return
    looked_in: set[str] = set()
    roots = [root]
    while roots:
        yield from _walk_near(roots.pop(0), os.path.realpath(root), looked_in, roots)


def _walk_near(root: str, first: str, looked_in: set[str], links: list[str]) -> Iterator[str]:
    """Give the files below a folder that was not `looked_in`; symbolic links to others are put behind the `links`.

    A link to a folder that the search began in (`first`), or that contains it, leads to nothing that is below.
    """
    for folder, folders, names in os.walk(root, onerror=_raise):
        its = os.path.realpath(folder)
        if its in looked_in or first.startswith(os.path.join(its, "")):
            folders.clear()
            continue
        looked_in.add(its)
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        links += [path for name in folders if os.path.islink(path := os.path.join(folder, name))]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not _is_hidden(name) and os.path.isfile(path):
                yield path


def _raise(error: OSError) -> None:
    raise error


def _walk_far(root: str) -> Iterator[str]:
    from pyarrow import fs

    base = _within(root)
    entries = _system(root).get_file_info(fs.FileSelector(base, recursive=True))
    below = sorted(facts.path[len(base) :].lstrip("/") for facts in entries if facts.type == fs.FileType.File)
    yield from (f"{root}/{path}" for path in below if not any(map(_is_hidden, path.split("/"))))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
