# SPDX-License-Identifier: Apache-2.0
"""Checks from DataFrame to DataFrame: the public name of `busq.audit.spark.checks`."""

from busq.audit.spark.checks import *
from busq.audit.spark.checks import __all__ as __all__
