"""Hooks that are programs."""

import shutil
from collections.abc import Callable, Mapping

import msgspec

from backstay.logic.hooks.spec import CommandHook, HookSpec
from backstay.runtime.hooks.means import Means, Told
from backstay.runtime.hooks.outcome import Outcome
from backstay.runtime.hooks.program import FLOOD, Program
from backstay.tools.processes import HOOK_VARIABLE, LOST_CODE, UNSEEN
from backstay.vocab.keys import without_keys


class CommandRun:
    """One run of a program: `run` it; when it wants to go on in the background, `finish` it there."""

    def __init__(self, spec: HookSpec, handler: CommandHook, told: Told, means: Means, mark: str) -> None:
        self._spec = spec
        self._handler = handler
        self._told = told
        self._means = means
        self._mark = mark
        self._program: Program | None = None

    async def run(self, *, may_leave: bool) -> Outcome:
        """Run it to its end. With `may_leave`, it may say that it goes on in the background: then `finish` it there."""
        environment = _environment(self._spec, self._handler, self._told, self._means)
        show = self._means.on_output
        spec = self._spec
        try:
            self._program = Program(
                _argv(self._handler, environment),
                told=msgspec.json.encode(self._told) + b"\n",
                cwd=self._means.cwd,
                environment=environment,
                mark=self._mark,
                leaves=_leaves if may_leave else _never,
                show=None if show is None else (lambda text: show(spec, text)),
            )
        except (OSError, ValueError) as exc:
            return Outcome(failed=f"it could not be started in {self._means.cwd!r}: {exc}")
        return await self.finish(self._spec.timeout)

    async def finish(self, seconds: float) -> Outcome:
        """Wait for the end of what was started, for so many seconds. Whatever happens, it does not outlive this."""
        program = self._program
        if program is None:
            return Outcome(failed="it was never started")
        try:
            ending = await program.watch(seconds)
            if ending in ("late", "flooded"):
                await program.end()
        except BaseException:
            await program.end()
            raise
        if ending == "left":
            return Outcome(stdout=program.stdout, background=True)
        program.close()
        return Outcome(
            exit_code=program.exit_code,
            stdout=program.stdout,
            stderr=program.stderr,
            cut=program.cut,
            timed_out=ending == "late",
            failed=_failure(ending, program.exit_code),
        )


def _failure(ending: str, exit_code: int | None) -> str:
    if ending == "flooded":
        return f"it wrote more than {FLOOD:,} bytes and was stopped"
    return LOST_CODE if exit_code == UNSEEN else ""


def background_seconds(text: str, usual: float) -> float:
    """For how long a program goes on that announced it: what it says, in milliseconds, else the usual time."""
    said = _announcement(text)
    value = said.get("asyncTimeout") if said is not None else None
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else usual


def _leaves(text: str) -> bool:
    said = _announcement(text)
    return said is not None and said.get("async") is True


def _never(text: str) -> bool:
    return False


def _announcement(text: str) -> dict[str, object] | None:
    line = text.lstrip().partition("\n")[0].strip()
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _environment(spec: HookSpec, handler: CommandHook, told: Told, means: Means) -> dict[str, str]:
    """What a program sees: no provider's key, and where it is."""
    folder = means.project or means.cwd
    known = {
        "CLAUDE_PROJECT_DIR": folder,
        "BACKSTAY_PROJECT_DIR": folder,
        "CLAUDE_SESSION_ID": told.get("session_id"),
        "BACKSTAY_SESSION_ID": told.get("session_id"),
        HOOK_VARIABLE: spec.event,
        "BACKSTAY_AGENT_ID": told.get("agent_id"),
        "BACKSTAY_AGENT_TYPE": told.get("agent_type"),
        "CLAUDE_PLUGIN_ROOT": spec.root if spec.source == "plugin" else "",
    }
    said = {name: value for name, value in known.items() if isinstance(value, str) and value}
    return {**without_keys(means.environment), **dict(handler.env), **said}


def _argv(handler: CommandHook, environment: Mapping[str, str]) -> list[str]:
    if handler.args is not None:
        fill = _filled(environment)
        return [fill(handler.command), *map(fill, handler.args)]
    if handler.shell == "powershell":
        found = shutil.which("pwsh") or shutil.which("powershell") or "pwsh"
        return [found, "-NoProfile", "-NonInteractive", "-Command", handler.command]
    shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("bash") or "/bin/sh"
    return [shell, "-c", handler.command]


def _filled(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Fill in the folders where no shell does."""
    names = ("CLAUDE_PROJECT_DIR", "BACKSTAY_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT")

    def fill(text: str) -> str:
        for name in names:
            text = text.replace(f"${{{name}}}", environment.get(name, ""))
        return text

    return fill
