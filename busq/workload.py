# SPDX-License-Identifier: Apache-2.0
"""Schedules of messages: the public name of `busq.lab.workload`."""

from busq.lab.workload import *
from busq.lab.workload import __all__ as __all__
