"""Layer 7: the command line. Modules are loaded when they are needed, so that `backstay --version` is as fast as Python."""

import gc
import os
import sys

from backstay.cli import output


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(20_000)  # what is imported is no garbage: to look for it there takes a tenth of the start
    missing = _replace_closed_streams()
    if 1 in missing:
        output.warn("Standard output is closed: there is nowhere to print to. Nothing was done.")
        sys.exit(output.COULD_NOT)
    if sys.argv[1:] == ["--version"]:
        sys.exit(output.with_stdout(output.print_version))
    _receive_child_signals()
    try:
        from backstay.cli.root import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the run began
        code = output.INTERRUPTED
    if code == output.INTERRUPTED:
        _ignore_interrupts()
    sys.exit(code)


def _receive_child_signals() -> None:
    """Undo an ignored SIGCHLD, which is inherited from the parent process: with it, the exit code of every child is lost."""
    import signal

    if sys.platform != "win32" and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _ignore_interrupts() -> None:
    """Ignore further interrupts: one that comes while Python ends would make an orderly end look like a kill."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _replace_closed_streams() -> set[int]:
    """Open the null device for each standard stream that is closed, and return their numbers.

    Otherwise the next file that is opened, perhaps a database, would take the number of such a stream and be written to as if it were one.
    """
    missing = {descriptor for descriptor in range(3) if _is_closed(descriptor)}
    for _ in missing:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if 0 in missing:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as the process
    if 2 in missing:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    return missing


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False
