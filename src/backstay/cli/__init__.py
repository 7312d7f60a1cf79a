"""Layer 7: the command line. Nothing is loaded before it is needed, so that `backstay --version` is as fast as Python."""

import os
import sys

from backstay.cli import output


def main() -> None:
    """Run the command line and leave with its exit code."""
    missing = _missing_streams()
    if 1 in missing:
        output.warn("Standard output is closed: there is nowhere to print to. Nothing was done.")
        sys.exit(output.COULD_NOT)
    if sys.argv[1:] == ["--version"]:
        sys.exit(output.with_stdout(output.say_version))
    _see_children_end()
    try:
        from backstay.cli.root import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before anything was begun
        code = output.INTERRUPTED
    if code == output.INTERRUPTED:
        _be_deaf()
    sys.exit(code)


def _see_children_end() -> None:
    """Hear of the end of children: whoever started us may ignore it, we would inherit that, and every exit code would be lost."""
    import signal

    if sys.platform != "win32" and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _be_deaf() -> None:
    """Ignore further interrupts: one that comes while Python ends would make an orderly end look like a kill."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _missing_streams() -> set[int]:
    """The standard streams that whoever started us has closed. They lead nowhere from here on.

    Otherwise the next file that is opened, a database perhaps, would take such a stream's number and be written to as if it were one.
    """
    missing = {descriptor for descriptor in range(3) if _is_closed(descriptor)}
    for _ in missing:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if 0 in missing:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as we are
    if 2 in missing:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    return missing


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False
