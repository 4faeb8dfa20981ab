# SPDX-License-Identifier: Apache-2.0
"""A run that is still being written: the public name of `busq.audit.spark.following.follow`."""

from busq.audit.spark.following.follow import *
from busq.audit.spark.following.follow import __all__ as __all__
