# SPDX-License-Identifier: Apache-2.0
"""The models, a file each; `MODELS` has them by name."""

from __future__ import annotations

from busq.lab.proof.logic import System
from busq.lab.proof.models import multicast

__all__ = ["MODELS"]

MODELS: dict[str, System] = {system.name: system for system in (multicast.SYSTEM,)}
