# SPDX-License-Identifier: Apache-2.0
"""A run that is still being written: the public name of `busq.audit.spark.follow`."""

from busq.audit.spark.follow import *
from busq.audit.spark.follow import __all__ as __all__
