"""Make the tools of a session, bound to its folders, its sandbox and its store of long outputs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from backstay.logic.state.session_state import State
from backstay.logic.stored_content import digest
from backstay.permissions import Withheld, withheld
from backstay.permissions.call_site import CallSite
from backstay.ports import EventStore, Tool
from backstay.runtime.inbox import Inbox
from backstay.sandbox.environment import harden_environment
from backstay.sandbox.git import careful_git, git_environment
from backstay.sandbox.resolve_paths import private_names
from backstay.tools.ask_user import ask_user
from backstay.tools.define import LateTool
from backstay.tools.files.apply_patch import apply_patch
from backstay.tools.files.edit import edit_file, multi_edit
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.notebook import notebook_edit
from backstay.tools.output import read_output
from backstay.tools.search import make_glob, make_grep
from backstay.tools.shell.background import BackgroundShells
from backstay.tools.todo import write_todos
from backstay.tools.web.fetch import make_web_fetch
from backstay.tools.web.search import make_web_search
from backstay.tools.web.search_engines import ENGINES, find_engine
from backstay.vocab import events
from backstay.vocab.env_keys import BUILT_IN, Keys
from backstay.vocab.event import Draft
from backstay.vocab.rules import Rule

if TYPE_CHECKING:
    import httpx


class StoredOutputs(Struct, frozen=True):
    """Stores whole outputs as blobs of the session's log."""

    store: EventStore
    inbox: Inbox
    state: State

    async def keep(self, content: bytes) -> str:
        """Put an output away and return the name that the model knows it by."""
        sha256 = digest(content)
        name = sha256[:16]
        event = events.OutputKept(output=name, sha256=sha256, size=len(content))
        await self.inbox.deliver(Draft(event=event), blobs={sha256: content})
        return name

    async def fetch(self, output_id: str) -> bytes:
        """Return a stored output. Raise `LookupError` when the session has none of that name."""
        return await self.store.blob(self.state.outputs[output_id])


class Toolbox:
    """The built-in tools of a session, and what must be stopped when it ends."""

    def __init__(
        self,
        call_site: CallSite,
        rules: Sequence[Rule],
        outputs: StoredOutputs,
        environment: Mapping[str, str] | None = None,
        keys: Keys = BUILT_IN,
        *,
        bare: bool = False,
    ) -> None:
        """Bind the tools. `bare`: whether the session was opened in a bare repository, see `careful_git`."""
        self.call_site = call_site
        self.rules = rules
        self.outputs = outputs
        added = environment or {}
        known = {**os.environ, **added}
        careful = careful_git(known, asked=call_site.trust_given, bare=bare)
        guard = careful if call_site.trusted else git_environment(call_site.cwd, known)
        self.programs = {**added, **harden_environment(known, call_site.roots, call_site.cwd), **guard}
        """The variables of every program that is started, by tools and by hooks."""
        self.keys = keys
        """What no program gets."""
        self._leads = private_names()

    @cached_property
    def _shells(self) -> BackgroundShells:
        return BackgroundShells(environment=self.programs, keep=self.outputs.keep, keys=self.keys)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, in the order in which the model is told of them."""
        return (
            read_file,
            write_file,
            edit_file,
            multi_edit,
            apply_patch,
            notebook_edit,
            self._glob(),
            self._grep(),
            LateTool(_BASH, lambda: self._shells.bash),
            LateTool(_BASH_OUTPUT, lambda: self._shells.bash_output),
            LateTool(_KILL_SHELL, lambda: self._shells.kill_shell),
            LateTool(_READ_OUTPUT, lambda: read_output(self.outputs.fetch)),
            write_todos,
            ask_user,
            *self._web(),
        )

    def read_only_tools(self) -> tuple[Tool, ...]:
        """Return the tools that only look at the workspace."""
        return read_file, self._glob(), self._grep()

    def running(self) -> tuple[tuple[str, str], ...]:
        """Return what runs in the background: its name, and what it is."""
        return self._shells.running if "_shells" in vars(self) else ()

    async def aclose(self) -> None:
        """Stop what runs in the background."""
        if "_shells" in vars(self):
            await self._shells.aclose()

    def _glob(self) -> Tool:
        return LateTool(_GLOB, lambda: make_glob(self._withheld))

    def _grep(self) -> Tool:
        return LateTool(_GREP, lambda: make_grep(self._withheld))

    def _web(self) -> Iterator[Tool]:
        """Yield the tools of the web. Both reach public addresses only."""
        yield LateTool(_WEB_FETCH, lambda: make_web_fetch(_client))
        engine = next((name for name, api in ENGINES.items() if os.environ.get(api.variable)), None)
        if engine is not None:
            yield make_web_search(find_engine(engine, _client, os.environ))

    def _withheld(self, path: str) -> Withheld:
        found = withheld(path, self.rules, self.call_site)
        return found or (withheld(led, self.rules, self.call_site) if (led := self._leads(path)) != path else "")


def _client() -> "httpx.AsyncClient":
    from backstay.system.guarded_http import Egress  # noqa: PLC0415 - it loads the HTTP client

    return Egress().client()


async def _fetch_nothing(output_id: str) -> bytes:
    raise LookupError(output_id)


_GLOB, _GREP, _READ_OUTPUT, _WEB_FETCH = make_glob(), make_grep(), read_output(_fetch_nothing), make_web_fetch(_client)
_BASH, _BASH_OUTPUT, _KILL_SHELL = BackgroundShells().tools
"""The tools as they are without a session: what the model reads of them."""
