# SPDX-License-Identifier: Apache-2.0
"""The audit of a trace while it is recorded."""
