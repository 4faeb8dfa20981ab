# SPDX-License-Identifier: Apache-2.0
"""Audits: what was ordered how, from the logs alone."""
