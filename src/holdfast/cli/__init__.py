"""Layer 7: the command line. Nothing is loaded before it is needed, so that `holdfast --version` is as fast as Python."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.argv[1:] == ["--version"]:
        from holdfast.version import VERSION

        print(f"holdfast {VERSION}")
        return
    try:
        from holdfast.cli.root import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before anything was begun
        code = 130
    sys.exit(code)
