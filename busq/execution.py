# SPDX-License-Identifier: Apache-2.0
"""Executions: the public name of `busq.lab.execution`."""

from busq.lab.execution import *
from busq.lab.execution import __all__ as __all__
