"""The sandbox: its own user, mount, process and network namespaces, all of it under one `strace`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.proof.trace import Event, read_events

CALLS: Final = (
    "execve,execveat,open,openat,openat2,creat,connect,sendto,sendmsg,sendmmsg,bind,listen,unlink,unlinkat,rename,renameat,renameat2,"
    "chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,link,linkat,symlink,symlinkat,mkdir,mkdirat,mknod,mknodat,rmdir,truncate,"
    "clone,clone3,fork,vfork,chdir,fchdir,utimensat,setxattr,lsetxattr,fsetxattr,removexattr,mount,umount2,ptrace,process_vm_writev,kill,tkill,setns,chroot,pivot_root"
)
"""What is traced; a filter in the kernel lets everything else pass at full speed."""
_DRIVER: Final = Path(__file__).with_name("driver.py")


def _one_processor() -> tuple[str, ...]:
    """Keep tracer and traced on one processor: they never work at the same time, and waking the other up costs more than the work."""
    return ("taskset", "-c", str(max(os.sched_getaffinity(0))))


class Sandbox:
    """Runs commands one after another and gives what each of them did."""

    def __init__(self, root: Path) -> None:
        self.trace = root.with_name(f"{root.name}.trace")
        self.trace.write_bytes(b"")
        tracer = (
            "strace",
            "-f",
            "-qq",
            "-A",  # at the end of the file, also after it was emptied
            "-y",
            "-s",
            "4096",
            "-e",
            "signal=none",
            "--seccomp-bpf",
            "--decode-pids=pidns",
            "-o",
            str(self.trace),
        )
        spaces = (
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "--ipc",
            "--pid",
            "--fork",
            "--mount-proc",
        )
        driver = (os.path.realpath(sys.executable), "-I", "-S", str(_DRIVER), str(root))
        self._child = subprocess.Popen(
            [*_one_processor(), *tracer, "-e", f"trace={CALLS}", *spaces, "--kill-child", *driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )
        self._log = self.trace.open("rb")
        self._number = 0

    def run(self, shell: str, text: str) -> tuple[int | None, list[Event]]:
        """Run one command; give its status, None when its time was over, and what it did."""
        self._number += 1
        job = json.dumps({"n": self._number, "shell": shell, "text": text})
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(job.encode() + b"\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            assert self._child.stderr is not None
            raise RuntimeError(f"the sandbox ended: {self._child.stderr.read().decode(errors='replace')}")
        status: int | None = json.loads(answer)["status"]
        return status, read_events(self._read(), self._number)

    def _read(self) -> bytes:
        """Give what was traced since the last time; the file is emptied when it is large."""
        content = self._log.read()
        if self._log.tell() > 50_000_000:
            os.truncate(self.trace, 0)
            self._log.seek(0)
        return content

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for pipe in (self._child.stdout, self._child.stderr, self._log):
            if pipe is not None:
                pipe.close()
        self.trace.unlink(missing_ok=True)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
