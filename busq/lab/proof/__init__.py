# SPDX-License-Identifier: Apache-2.0
"""Proofs without a bound: models of the protocols, read by a solver for any number of processes and messages.

>>> from busq.lab.proof import MODELS
>>> multicast = MODELS["multicast"]
>>> len(multicast.actions), len(multicast.mutants)
(20, 22)

`prove` needs z3 (`pip install 'busq[proof]'`); everything else does without.
"""

from __future__ import annotations

from busq.lab.proof.follow import Followed, NotASearch, Refusal, follow, scenes_of
from busq.lab.proof.logic import Action, Mutant, System
from busq.lab.proof.models import MODELS, VIOLATIONS
from busq.lab.proof.result import Answer, Counterexample, ProofResult
from busq.lab.proof.solver import SOLVERS, NoSolver, impossible_actions, prove
from busq.lab.proof.states import Execution, Impossible, Scene, Violation

__all__ = [
    "MODELS",
    "SOLVERS",
    "VIOLATIONS",
    "Action",
    "Answer",
    "Counterexample",
    "Execution",
    "Followed",
    "Impossible",
    "Mutant",
    "NoSolver",
    "NotASearch",
    "ProofResult",
    "Refusal",
    "Scene",
    "System",
    "Violation",
    "follow",
    "impossible_actions",
    "prove",
    "scenes_of",
]
