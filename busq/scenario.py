# SPDX-License-Identifier: Apache-2.0
"""Executions that are written down: the public name of `busq.lab.scenario`."""

from busq.lab.scenario import *
from busq.lab.scenario import __all__ as __all__
