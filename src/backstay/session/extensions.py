"""Host the extensions of a session: find, check, restore and activate them in order, and deactivate them in reverse order.

None of them is needed for the conversation. One that is missing, refuses its state, raises or takes too long is left out, and named;
the session opens all the same.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import EntryPoint
from typing import Final, Protocol, runtime_checkable

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.logic.state.resume import ResumeReport
from backstay.logic.state.session_state import State
from backstay.plugins.ids import check_name, check_version
from backstay.ports import MachineMismatch, Slot, Tap
from backstay.runtime.barrier import Fault, run_guarded
from backstay.session.open import Prepared
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.system.folders import data_dir
from backstay.vocab import events
from backstay.vocab.errors import StoreFull, StoreUnavailable, UserError
from backstay.vocab.event import Draft

LIMIT_S: Final = 10.0
"""How long one extension may take to start, and to stop."""
LARGEST_SLOT: Final = 256 * 1024
"""Characters of state that an extension may have."""
MOST: Final = 100
_OWNER: Final = "extension:"
"""Slots of extensions are kept under their name with this before it, so that they meet no machine's."""


class ExtensionContext(Struct, frozen=True, kw_only=True):
    """The interface of a session that an extension gets when it starts."""

    session: str
    cwd: str
    project: str = ""
    resumed: bool = False
    """Whether the session was there before."""
    data: str = ""
    """A folder for files of its own; it need not exist yet."""
    tell: Callable[[str], None] = field(default=lambda words: None)
    """Takes a remark for the person. Never waits."""


@runtime_checkable
class Extension(Protocol):
    """Code of the program that opened the session, or of an installed package, that lives as long as the session.

    It may also have `needs`, the names of extensions that must be active before it is.
    """

    @property
    def name(self) -> str:
        """The name of the extension, under which its state is stored too."""

    @property
    def version(self) -> str:
        """The version of its state's shape."""

    def restore(self, slot: Slot) -> None:
        """Take the state that was put away, before `activate`; not called when there is none. Raise `SlotRefused` for one of no use."""

    async def activate(self, context: ExtensionContext) -> None:
        """Begin. Whatever it raises, only this extension is left out."""

    def state(self) -> str | None:
        """Return the state to store; None for nothing. Called after each turn and before the end; never wait."""

    async def deactivate(self) -> None:
        """Release all resources. Called once after `activate`, also when that failed."""


class SlotRefused(MachineMismatch):
    """An extension cannot use its state. It stops; the conversation goes on."""


class StartedExtensions(Struct, frozen=True, kw_only=True):
    """The extensions that were started, and the errors of the others."""

    active: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is wrong with those that were given and are not active."""
    absent: tuple[str, ...] = ()
    """For the report of a resume: those whose state is in the log and that are missing, and those of `notes`."""
    faults: tuple[events.FaultCaught, ...] = ()
    """To be written down: what was raised."""

    def complete_report(self, report: ResumeReport | None) -> ResumeReport | None:
        """Return the report of a resume, with those that are missing or failed."""
        return None if report is None else replace(report, absent=(*report.absent, *self.absent))


class _ValidExtension(Struct, frozen=True):
    """An extension, and what it said of itself when it was looked at: it is not asked again."""

    extension: Extension
    name: str
    version: str
    needs: frozenset[str]


class Extensions:
    """The extensions of one session."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._active: list[_ValidExtension] = []
        self._faults: list[events.FaultCaught] = []

    @property
    def active(self) -> tuple[str, ...]:
        """The names of those that run, in the order in which they were activated."""
        return tuple(each.name for each in self._active)

    async def start(
        self, extensions: Sequence[object], slots: Mapping[str, events.SlotWritten], context: ExtensionContext
    ) -> StartedExtensions:
        """Check, restore and activate each in turn, those that others need first. Raises nothing but cancellation.

        `slots` are those of the session's state, by owner; others than those of extensions are not looked at.
        """
        notes: list[str] = []
        waiting = await self._check(extensions, notes)
        given = {each.name for each in waiting}
        while waiting:
            ready = next((each for each in waiting if each.needs <= set(self.active)), None)
            if ready is None:
                notes += (_unmet_needs(each, set(self.active)) for each in waiting)
                break
            waiting.remove(ready)
            notes += filter(None, (await self._begin(ready, slots.get(_OWNER + ready.name), context),))
        missing = (
            f"the extension {name!r} left state in this session and is not there"
            for name in (owner.removeprefix(_OWNER) for owner in slots if owner.startswith(_OWNER))
            if name not in given
        )
        faults, self._faults = tuple(self._faults), []
        return StartedExtensions(active=self.active, notes=tuple(notes), absent=(*missing, *notes), faults=faults)

    async def drafts(self, slots: Mapping[str, events.SlotWritten]) -> tuple[Draft, ...]:
        """Return, for the next commit, the state that differs from `slots`, which the log has, and the faults since the last call.

        An extension whose state cannot be had keeps the slot that it has.
        """
        found: list[Draft] = []
        for each in self._active:
            slot = await self._slot(each)
            if slot is not None and slots.get(slot.owner) != slot:
                found.append(Draft(event=slot))
        found += (Draft(event=fault) for fault in self._faults)
        self._faults = []
        return tuple(found)

    async def stop(self) -> tuple[str, ...]:
        """Deactivate all in reverse order, each within its limit, even when others fail. Return what went wrong."""
        notes: list[str] = []
        with anyio.CancelScope(shield=True):
            while self._active:
                each = self._active.pop()
                notes += filter(None, (await self._end(each),))
        return tuple(notes)

    async def _check(self, extensions: Sequence[object], notes: list[str]) -> list[_ValidExtension]:
        found: dict[str, _ValidExtension] = {}
        for each in extensions[:MOST]:
            label = f"the extension {type(each).__name__!r}"

            async def check(given: object = each) -> _ValidExtension:
                return _validate(given)

            held = await run_guarded(label, check)
            if isinstance(held, Fault):
                notes.append(f"{label} cannot be used: {held.message}")
            elif held.name in found:
                notes.append(f"the extension {held.name!r} is given twice; the first one counts")
            else:
                found[held.name] = held
        if len(extensions) > MOST:
            notes.append(f"only the first {MOST} of {len(extensions)} extensions are used")
        return list(found.values())

    async def _begin(self, held: _ValidExtension, written: events.SlotWritten | None, context: ExtensionContext) -> str:
        """Restore and activate one; say what went wrong."""
        name, extension = held.name, held.extension

        async def restore() -> str:
            if written is None:
                return ""
            slot = Slot(owner=name, version=written.version, content=written.content)
            try:
                extension.restore(slot)
            except MachineMismatch as exc:
                return f"the extension {name!r} cannot use its state and is stopped: {exc}"
            return ""

        refused = await self._try(name, "restore", restore)
        if refused:
            return refused
        self._active.append(held)  # before it begins: when the opening is cancelled meanwhile, `stop` ends it
        failed = await self._try(name, "activate", partial(_run_silently, extension.activate, context))
        if failed:
            self._active.remove(held)
            with anyio.CancelScope(shield=True):
                await self._end(held)  # why that fails matters less than why it had to be
        return failed

    async def _end(self, held: _ValidExtension) -> str:
        return await self._try(held.name, "deactivate", partial(_run_silently, held.extension.deactivate))

    async def _try(self, name: str, doing: str, work: Callable[[], Awaitable[str]]) -> str:
        """Do one step of an extension in its time; its words, or what went wrong."""
        label = f"the extension {name!r}, {doing}"

        async def run_in_time() -> str:
            with anyio.fail_after(self._limit_s):
                return await work()

        answer = await run_guarded(label, run_in_time)
        if not isinstance(answer, Fault):
            return answer
        late = answer.kind == answer.message == "TimeoutError"
        words = f"it took longer than {self._limit_s:g} s" if late else answer.message
        self._faults.append(events.FaultCaught(where=label, kind=answer.kind, message=words))
        return f"the extension {name!r} failed and is stopped ({doing}): {words}"

    async def _slot(self, held: _ValidExtension) -> events.SlotWritten | None:
        async def ask() -> events.SlotWritten | None:
            content: object = held.extension.state()
            if content is None:
                return None
            if not isinstance(content, str):
                raise UserError(f"state() gave {type(content).__name__!r}. Give text, or None.")
            if len(content) > LARGEST_SLOT:
                raise UserError(f"its state has {len(content):,} characters; at most {LARGEST_SLOT:,} are kept")
            content.encode()
            return events.SlotWritten(owner=_OWNER + held.name, version=held.version, content=content)

        answer = await run_guarded(f"the extension {held.name!r}, state", ask)
        if isinstance(answer, Fault):
            self._faults.append(events.FaultCaught(where=answer.where, kind=answer.kind, message=answer.message))
            return None
        return answer


async def _run_silently(work: Callable[..., Awaitable[None]], *arguments: object) -> str:
    await work(*arguments)
    return ""


def _validate(given: object) -> _ValidExtension:
    """Return `given` as an extension. Raise `UserError` with what it lacks."""
    if isinstance(given, type):
        raise UserError("it is a class; give an object of it")
    if not isinstance(given, Extension):
        raise UserError(f"it has no {', '.join(each for each in _PARTS if not hasattr(given, each))}")
    needs: object = getattr(given, "needs", ())
    if not isinstance(needs, tuple | list | set | frozenset) or not all(isinstance(each, str) for each in needs):
        raise UserError(f"needs is {needs!r}; it has to be the names of extensions")
    name, version = check_name(str(given.name), "session extension"), str(given.version)
    return _ValidExtension(given, name, check_version(version, name), frozenset(map(str, needs)))


_PARTS: Final = ("name", "version", "restore", "activate", "state", "deactivate")


def _unmet_needs(held: _ValidExtension, active: set[str]) -> str:
    lacking = ", ".join(repr(each) for each in sorted(held.needs - active))
    return f"the extension {held.name!r} is not started: it needs {lacking}"


GROUP: Final = "backstay.extensions"


class FoundExtensions(Struct, frozen=True, kw_only=True):
    """Extensions of packages."""

    extensions: tuple[object, ...] = ()
    """Not checked yet; `Extensions.start` does that."""
    problems: tuple[str, ...] = ()


async def find_extensions(names: Collection[str], points: Iterable[EntryPoint] | None = None) -> FoundExtensions:
    """Load the extensions called `names`, in that order. Never raises: one that cannot be loaded is a problem.

    An entry point leads to an extension, or to something that makes one when it is called without arguments.
    """
    if not names:
        return FoundExtensions()
    offered: dict[str, EntryPoint] = {}
    for point in _entry_points() if points is None else points:
        offered.setdefault(point.name, point)
    found: list[object] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        if name not in offered:
            problems.append(f"The extension {name!r} is not installed: no package offers it under {GROUP!r}.")
            continue
        made = await _instantiate(offered[name])
        if isinstance(made, Fault):
            problems.append(f"The extension {name!r} cannot be loaded: {made.message}")
        else:
            found.append(made)
    return FoundExtensions(extensions=tuple(found), problems=tuple(problems))


async def _instantiate(point: EntryPoint) -> object:
    async def make() -> object:
        loaded = point.load()
        return loaded() if isinstance(loaded, type) or not hasattr(loaded, "activate") else loaded

    return await run_guarded(f"the extension {point.name!r}, load", make)


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - it looks through every installed package

    return entry_points(group=GROUP)


class ExtensionHost:
    """The extensions of a session, from before it is open until it is closed."""

    def __init__(self) -> None:
        self._extensions = Extensions()
        self.started = StartedExtensions()
        """How their start went."""

    async def start(self, options: Options, prepared: Prepared, slots: Mapping[str, events.SlotWritten]) -> None:
        """Start what was given. Whatever is wrong with an extension, the session opens."""
        context = ExtensionContext(
            session=prepared.session,
            cwd=prepared.state.meta.cwd,
            project=prepared.state.meta.project,
            resumed=prepared.report is not None,
            data=str(data_dir() / "extensions"),
        )
        self.started = await self._extensions.start(tuple(options.extensions), slots, context)

    async def stop(self) -> tuple[str, ...]:
        """Deactivate the extensions, and report what failed. Further calls do nothing."""
        return await self._extensions.stop()

    @property
    def active(self) -> bool:
        """Whether any extension lives with the session."""
        return bool(self._extensions.active)

    async def extension_state(self, state: State) -> tuple[Draft, ...]:
        """Return what extensions want to have in the commit that ends a turn."""
        return await self._extensions.drafts(state.slots)

    async def dispose(self, tap: Tap) -> None:
        """End every extension once the last event is written; what went wrong is traced."""
        for problem in await self.stop():
            tap("extension_failed", {"problem": problem})

    async def join(self, session: Session) -> None:
        """Write what went wrong at the start, and have the state of extensions written when the session is closed."""
        await session.note(*(Draft(event=fault) for fault in self.started.faults))
        session.on_close(lambda: self._write_state(session))

    async def _write_state(self, session: Session) -> None:
        with suppress(StoreFull, StoreUnavailable):  # what is not in the log yet is put away after the next turn
            await session.note(*await self._extensions.drafts(session.slots))
