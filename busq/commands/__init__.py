# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line that have files of their own; busq.cli puts them together."""
