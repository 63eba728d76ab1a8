"""`python -m minrisk`, and the command `minrisk`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C is no traceback while it is imported either."""
    try:
        from minrisk.cli import main as run
    except KeyboardInterrupt:
        return 130  # as `minrisk.cli.INTERRUPTED`
    return run()


if __name__ == "__main__":
    sys.exit(main())
