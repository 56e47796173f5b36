"""The program ``byrote``, as the package installs it: ``byrote study my.txt`` or ``python -m byrote study my.txt``."""

import sys

from byrote._byrote import run_program


def main() -> int:
    """Run the program with the arguments of this process and return its exit code."""
    return run_program(["byrote", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
