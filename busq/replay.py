# SPDX-License-Identifier: Apache-2.0
"""A schedule replayed between real processes: the public name of `busq.trial.replay`."""

from busq.trial.replay import *
from busq.trial.replay import __all__ as __all__
