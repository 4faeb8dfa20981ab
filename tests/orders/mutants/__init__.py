# SPDX-License-Identifier: Apache-2.0
"""Orders with slips: the table of them, and how they are built and searched."""
