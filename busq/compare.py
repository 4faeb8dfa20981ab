# SPDX-License-Identifier: Apache-2.0
"""One schedule under several orders: the public name of `busq.trial.compare`."""

from busq.trial.compare import *
from busq.trial.compare import __all__ as __all__
