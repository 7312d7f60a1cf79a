"""Runs commands one by one inside the sandbox, under the tracer. It is a program by itself and imports nothing of this project.

Each line on stdin is a job: `{"n": 7, "shell": "bash", "text": "..."}`. A mark in the trace stands before and behind what it runs: the
driver looks for a file of that name. The answer is a line with the exit status, or null when the time was over.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys

MOUNT_ATTR_RDONLY = 1
AT_RECURSIVE = 0x8000
AT_FDCWD = -100
SYS_MOUNT_SETATTR = 442
MS_BIND = 4096
SECONDS = 1.5
LARGEST_OUTPUT = 4_000_000


def close_off(root: str) -> None:
    """Make everything but `root` read-only, for this mount namespace alone."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def attributes(path: str, to_set: int, to_clear: int, flags: int) -> None:
        wanted = (ctypes.c_uint64 * 4)(to_set, to_clear, 0, 0)
        check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(wanted), 32))

    check(libc.mount(root.encode(), root.encode(), None, MS_BIND, None))
    attributes("/", MOUNT_ATTR_RDONLY, 0, AT_RECURSIVE)
    attributes(root, 0, MOUNT_ATTR_RDONLY, 0)


def mark(text: str) -> None:
    """Leave a mark in the trace."""
    try:
        os.close(os.open(f"/proof-mark/{text}", os.O_RDONLY))
    except FileNotFoundError:
        return


def end_all() -> None:
    """Kill and reap whatever is left: this process is the first of its process namespace."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def run(job: dict[str, str], root: str, nothing: int, output: int) -> int | None:
    """Run one job, and give its status."""
    os.chdir(f"{root}/work")
    os.ftruncate(output, 0)
    env = {
        "HOME": f"{root}/home",
        "PATH": f"{root}/bin:/usr/local/bin:/usr/bin:/bin",
        "USER": "person",
        "LOGNAME": "person",
        "TMPDIR": f"{root}/tmp",
        "LC_CTYPE": "C.UTF-8",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "PWD": f"{root}/work",
    }
    mark(f"begin-{job['n']}")
    child = os.posix_spawn(
        f"/usr/bin/{job['shell']}",
        [job["shell"], "-c", job["text"]],
        env,
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, nothing, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
    )
    watched = os.pidfd_open(child)
    ended, _, _ = select.select([watched], [], [], SECONDS)
    os.close(watched)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if ended else None
    end_all()
    mark(f"end-{job['n']}")
    return status


def main() -> None:
    """Close the sandbox off, then run what comes."""
    root = sys.argv[1]
    close_off(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_OUTPUT, LARGEST_OUTPUT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    nothing = os.open("/dev/null", os.O_RDONLY)
    output = os.open(f"{root}/output", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for line in sys.stdin:
        sys.stdout.write(json.dumps({"status": run(json.loads(line), root, nothing, output)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
