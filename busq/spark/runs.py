# SPDX-License-Identifier: Apache-2.0
"""Many runs: the public name of `busq.audit.spark.many_runs`."""

from busq.audit.spark.many_runs import *
from busq.audit.spark.many_runs import __all__ as __all__
