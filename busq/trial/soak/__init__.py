# SPDX-License-Identifier: Apache-2.0
"""Killing, stopping and resuming processes at random, and comparing what they wrote down: `busq soak`.

`conductor` plays the rounds, `worker` is what gets killed, `ledger` what it writes outside of shared memory, `judge`
says what is promised and whether it holds, `show` prints it.
"""

from busq.trial.soak.conductor import MODES, Outcome, SoakError, run

__all__ = ["MODES", "Outcome", "SoakError", "run"]
