# SPDX-License-Identifier: Apache-2.0
"""Traces: what was sent and delivered, recorded from a bus or read from somebody's logs."""
