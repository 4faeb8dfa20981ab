# SPDX-License-Identifier: Apache-2.0
"""Kills and stops at random, judged: the public name of `busq.trial.soak`."""

from busq.trial.soak import *
from busq.trial.soak import __all__ as __all__
