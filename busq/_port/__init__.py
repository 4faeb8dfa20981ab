# SPDX-License-Identifier: Apache-2.0
"""How Python drives a port, one process's end of a peer: arguments, errors, threads and event loops."""
