# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `token-rest`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.token_rest import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

FORGOTTEN = "no process is forgotten: while one waits, the token is on its way, or its WANT"
ONE_WANT = scene([1])

VIOLATIONS = {
    "no-note": Violation(ONE_WANT, FORGOTTEN, "visit 1; submit 0 1; leave_note 0 1 0; park 0"),
    "past-parked": Violation(ONE_WANT, FORGOTTEN, "visit 1; submit 0 1; park 0; leave_note 0 1 0"),
    "need-uncounted": Violation(ONE_WANT, FORGOTTEN, "visit 1; submit 0 1; leave_note 0 1 0; visit 0; park 0"),
    "early-park": Violation(ONE_WANT, FORGOTTEN, "submit 0 1; leave_note 0 1 0; visit 0; park 0"),
}
