# SPDX-License-Identifier: Apache-2.0
"""How many steps it takes a mutant to break a property: a search through all executions in a scene, breadth first."""

from __future__ import annotations

import itertools

from busq.lab.proof import Scene, System
from busq.lab.proof.compiled import Compiled


def steps_to_break(system: System, scene: Scene, claim: str) -> int | None:
    """The length of the shortest execution after which a property does not hold; None where there is none."""
    model = Compiled(system, {sort: range(size) for sort, size in scene.sizes.items()})
    beginning = model.begin(scene)
    calls = [
        (action.name, arguments)
        for action in system.actions
        for arguments in itertools.product(*(range(scene.sizes[one.sort]) for one in action.parameters if one.sort))
    ]
    holds = system.properties[claim]
    seen, reached = {beginning}, {beginning}
    for length in itertools.count(1):
        steps = (model.step(state, name, *arguments) for state in reached for name, arguments in calls)
        reached = {after for after in steps if after is not None} - seen
        if not reached:
            return None
        if not all(model.holds(after, holds) for after in reached):
            return length
        seen |= reached
    raise AssertionError("a search without an end")
