# SPDX-License-Identifier: Apache-2.0
"""Killing, stopping and resuming processes at random, and comparing what they wrote down: `busq soak`.

`conductor` plays the rounds, `killer` kills, `worker` and `member` are what gets killed, `ledger` what they write down
outside of shared memory.  `judge` says what is promised to workers and whether it holds, `census` the same of members.
"""

from busq.trial.soak.conductor import MODES, Outcome, SoakError, run

__all__ = ["MODES", "Outcome", "SoakError", "run"]
