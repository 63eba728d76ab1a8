"""`python -m minrisk`, and the command `minrisk`."""

import sys
from contextlib import suppress

from minrisk.version import __version__


def main() -> int:
    """Run the command line; Ctrl-C is no traceback while it is imported either."""
    if sys.argv[1:] in (["-V"], ["--version"]):
        with suppress(OSError):  # which the command line would report
            print(f"minrisk, version {__version__}", flush=True)
            return 0  # importing click would take three times as long
    try:
        from minrisk.cli import main as run
    except KeyboardInterrupt:
        return 130  # as `minrisk.cli.INTERRUPTED`
    return run()


if __name__ == "__main__":
    sys.exit(main())
