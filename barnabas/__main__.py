"""The entry: put the house at the front of the import path, and run the command.

The house is `barnabas/house/` in an environment, and the checkout itself in an editable install.
Only this process's path changes. At its front the application's packages win over a user's own
`config` or `protocol` in the present directory or on PYTHONPATH.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command `barnabas`."""
    package = os.path.dirname(os.path.abspath(__file__))
    house = os.path.join(package, "house")
    sys.path.insert(0, house if os.path.isdir(house) else os.path.dirname(package))
    from client.cli import main as run

    run()


if __name__ == "__main__":
    main()
