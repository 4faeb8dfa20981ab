# SPDX-License-Identifier: Apache-2.0
"""Keeping buses well: what ails one, and what is left of dead ones."""
