# SPDX-License-Identifier: Apache-2.0
"""The audit of one run that may be larger than memory."""
