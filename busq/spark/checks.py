# SPDX-License-Identifier: Apache-2.0
"""Checks from DataFrame to DataFrame: the public name of `busq.audit.spark.large_run.checks`."""

from busq.audit.spark.large_run.checks import *
from busq.audit.spark.large_run.checks import __all__ as __all__
