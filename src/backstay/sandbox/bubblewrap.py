"""Run a program in a sandbox of namespaces: `bwrap` gives it a file system, process list and network of its own."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from backstay.sandbox import seccomp
from backstay.sandbox.landlock import prepare_scope
from backstay.sandbox.plan import FRESH, Mount, SandboxPlan, above
from backstay.sandbox.seals import Seals
from backstay.system.files import replace_file

if TYPE_CHECKING:
    from backstay.ports import Sandbox

_SYSTEM: Final = (
    "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/home/linuxbrew/.linuxbrew/bin"
)
_FILE_POWERS: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
"""Capabilities that the superuser keeps: files of other users, as in a mounted project, can still be worked on."""
_DAEMONS: Final = """
/run/user /run/dbus /run/docker.sock /run/containerd /run/podman /run/crio /run/libvirt /run/lxd /run/systemd/private
/run/systemd/notify /run/snapd.socket /run/snapd-snap.socket /var/lib/lxd /var/snap/lxd
""".split()
"""Sockets of programs that would do something outside of the sandbox for any program that connects."""
_LAUNCH: Final = 'exec "$@" 9<"$0"'
_LAUNCH_GRACEFULLY: Final = 'trap "" TERM; exec "$@" 9<"$0"'
"""SIGTERM is for the program alone: if bwrap took it, everything inside would end at once, without a goodbye."""
_FIRST: Final = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
"""The first process inside. When it ends the kernel ends all others before its parent outside learns of it. Unlike the first, the
program that it starts can be ended by signals. What it would say about that itself is left out."""


def find() -> str:
    """Find `bwrap` where the system keeps programs, as a workspace may be on PATH; empty when it is not there."""
    return shutil.which("bwrap", path=_SYSTEM) or ""


class Bubblewrap:
    """Start programs in namespaces of their own, with a filter of system calls besides."""

    def __init__(self, plan: SandboxPlan, *, user_namespace: bool = True, graceful: bool = True) -> None:
        """Build the sandbox. Without a user namespace only the superuser can; `graceful` needs an `env` that resets signals."""
        self._plan = plan
        self._program = find()
        self._user_namespace = user_namespace
        self._graceful = graceful
        self._seals = Seals(plan)
        self._filter = seccomp.assemble(seccomp.ORDINARY if plan.network else seccomp.ROUTES_ONLY)

    @property
    def name(self) -> str:
        """What keeps programs."""
        return "bubblewrap"

    @property
    def words(self) -> str:
        """What is kept from programs."""
        return self._plan.words(" It sees its own processes alone, and they end with it.")

    def command(self, argv: Sequence[str], *, cwd: str) -> tuple[list[str], Callable[[], None] | None]:
        """Return what to start instead of `argv`."""
        self._plan.scratch.ready()
        places = self._visible_places()
        wrapped = [self._program, *self._spaces(), "--seccomp", "9", *self._mounts(places), "--chdir", cwd, "--"]
        wrapped += ["/bin/sh", "-c", _FIRST, "sh"]
        if self._graceful:
            wrapped += ["/usr/bin/env", "--default-signal=TERM"]
        launch = _LAUNCH_GRACEFULLY if self._graceful else _LAUNCH
        return ["/bin/sh", "-c", launch, self._filter_file(), *wrapped, *argv], prepare_scope()

    def close(self) -> None:
        """Remove what was made for the session."""
        self._seals.close()
        self._plan.scratch.close()

    def _spaces(self) -> Iterator[str]:
        yield from ("--die-with-parent", "--as-pid-1")
        yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        if not self._plan.network:
            yield "--unshare-net"
        if self._user_namespace:
            yield "--unshare-user"
        if os.geteuid() == 0:  # other users have no powers left after this anyway
            yield from ("--cap-drop", "ALL")
            for power in _FILE_POWERS:
                yield from ("--cap-add", power)

    def _visible_places(self) -> tuple[Mount, ...]:
        """Return the places, without a second way to the session's temporary folder where it stands in for the machine's."""
        places, scratch = self._plan.places(), self._plan.scratch.path
        return tuple(place for place in places if place.path != scratch or _over(place, places).source != scratch)

    def _mounts(self, places: Sequence[Mount]) -> Iterator[str]:
        scratch = self._plan.scratch.path
        standing = [place.path for place in places if place.source == scratch]
        yield from ("--setenv", "TMPDIR", standing[0] if standing else scratch)
        yield from ("--bind" if places[0].access == "write" else "--ro-bind", "/", "/")
        yield from ("--dev", "/dev", "--proc", "/proc")
        # the superuser could write these in any namespace, and they steer the whole machine
        for path in ("/proc/sys", "/proc/sysrq-trigger"):
            yield from ("--ro-bind-try", path, path)
        every = sorted(
            (*places[1:], *self._seal_mounts(places), *_daemons(places)), key=lambda place: place.path.count("/")
        )
        for place in every:
            yield from _mount(place, places)
        for place in every:
            if _stands_empty(place, places) and os.path.isdir(place.path):
                yield from ("--remount-ro", place.path)

    def _seal_mounts(self, places: Sequence[Mount]) -> Iterator[Mount]:
        taken = {place.path for place in places}
        for seal in self._seals.whole:
            if seal.path not in taken and above(places, seal.path).access == "write":
                yield Mount(seal.path, seal.access)

    def _filter_file(self) -> str:
        """Write the filter to a file: a descriptor would not survive the way to `bwrap`."""
        path = os.path.join(self._plan.scratch.beside, "filter")
        if not os.path.exists(path):
            replace_file(path, self._filter, durable=False)
        return path


def _daemons(places: Sequence[Mount]) -> Iterator[Mount]:
    for path in _DAEMONS:
        real = os.path.realpath(path)
        if os.path.exists(real) and not any(place.path == real for place in places):
            yield Mount(real, "closed")


def _mount(place: Mount, places: Sequence[Mount]) -> tuple[str, ...]:
    match place.access:
        case "write" if place.source == FRESH:
            return ("--tmpfs", place.path)
        case "write":
            return ("--bind", place.source or place.path, place.path)
        case "read":
            over = _over(place, places)
            needless = over.access == "read" and not over.source if place in places else bool(over.source)
            return () if needless else ("--ro-bind", place.path, place.path)
        case "closed":
            if not _stands_empty(place, places):
                return ()
            return ("--tmpfs", place.path) if os.path.isdir(place.path) else ("--ro-bind", "/dev/null", place.path)


def _stands_empty(place: Mount, places: Sequence[Mount]) -> bool:
    """Return whether an empty thing must be put over a place: not where it cannot be seen anyway."""
    over = _over(place, places)
    return place.access == "closed" and over.access != "closed" and not over.source


def _over(place: Mount, places: Sequence[Mount]) -> Mount:
    return above([each for each in places if each.path != place.path], place.path)


if TYPE_CHECKING:
    _: Sandbox = Bubblewrap.__new__(Bubblewrap)
