# SPDX-License-Identifier: Apache-2.0
"""The command line, without an installed script: `python -m busq`."""

from busq.cli import main

if __name__ == "__main__":
    main()
