# SPDX-License-Identifier: Apache-2.0
"""Killing, stopping and resuming processes at random, and comparing their ledgers: `busq soak`.

`conductor` plays the rounds, `killer` kills, `worker` is the program that gets killed, `ledger` holds what it wrote
down outside of shared memory, and `judge` holds the promises against that.
"""

from busq.trial.soak.conductor import MODES, Outcome, SoakError, run

__all__ = ["MODES", "Outcome", "SoakError", "run"]
