# SPDX-License-Identifier: Apache-2.0
"""The laboratory: orders on a stage, in a simulated network, under an exhaustive search, and what judges them."""
