# SPDX-License-Identifier: Apache-2.0
"""What several rooms need and no user imports: arguments, files, processes, numbers for people."""
