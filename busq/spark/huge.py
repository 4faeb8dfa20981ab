# SPDX-License-Identifier: Apache-2.0
"""One huge run: the public name of `busq.audit.spark.large_run.huge`."""

from busq.audit.spark.large_run.huge import *
from busq.audit.spark.large_run.huge import __all__ as __all__
