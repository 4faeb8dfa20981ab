# SPDX-License-Identifier: Apache-2.0
"""Pages: an audit or a sweep as one file that needs no network, with its diagrams."""
