# SPDX-License-Identifier: Apache-2.0
"""Many runs: the public name of `busq.audit.spark.runs`."""

from busq.audit.spark.runs import *
from busq.audit.spark.runs import __all__ as __all__
