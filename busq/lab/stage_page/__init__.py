# SPDX-License-Identifier: Apache-2.0
"""A page in a browser on which its user conducts the network of a stage."""
