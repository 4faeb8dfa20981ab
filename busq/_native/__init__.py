# SPDX-License-Identifier: Apache-2.0
"""The C core as cffi sees it: ffi and lib, and nothing else."""

from busq._native import _interpreter  # noqa: F401  (first of all: it refuses other interpreters than the main one)
from busq._native._busq import ffi, lib

__all__ = ["ffi", "lib"]
