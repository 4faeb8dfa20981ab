# SPDX-License-Identifier: Apache-2.0
"""Why a bridge ends, each with the exit code of `busq bridge run`."""

from __future__ import annotations

from busq.errors import BusqError


class Ended(BusqError):
    """A bridge can't go on."""

    exit_code = 1


class Fenced(Ended):
    """Another bridge has this machine's name, or the machine was put out."""

    exit_code = 7


class Gap(Ended):
    """What comes next for this machine is not in the stream any more."""

    exit_code = 8


class OtherHistory(Ended):
    """The stream is not the one that this machine has followed: places were used again."""

    exit_code = 9
