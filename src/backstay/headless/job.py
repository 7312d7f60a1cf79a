"""What one run without a person is to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from backstay.config.model_finder import Finder
from backstay.headless.result import About
from backstay.providers.recorded import PREFIX
from backstay.providers.registry import full_name
from backstay.session.options import Options
from backstay.session.session import Session

OutputFormat = Literal["text", "json", "stream-json", "events"]
DRAIN_S: Final = 10.0
"""How long a turn may go on after the process was told to end."""

Complain = Callable[[str], None]
"""Tells a person something, beside the output."""


class Job(Struct, frozen=True, kw_only=True):
    """What one run is to do."""

    options: Options
    """`resume` may be a name here."""
    newest: bool = False
    """Go on with the newest session of the project."""
    prompt: str | None = None
    output: OutputFormat = "text"
    lines: bool = False
    """Whether prompts, answers and interrupts come in as lines."""
    finish: bool = False
    """Add no prompt; finish the turn that was open."""
    input_id: str | None = None
    partial: bool = False
    drain_s: float = DRAIN_S


def model_name(options: Options) -> str:
    """The model that the options name, as the log would hold it; empty when they name none."""
    if options.model is None or isinstance(options.model, str):
        return full_name(options.model or "", Path(options.cwd).expanduser().absolute())
    return options.model.name


def check_model(options: Options, recorded: str = "") -> None:
    """Raise `UserError` when there is no model: neither the one that is named nor the one that the log has."""
    if options.model is None or isinstance(options.model, str):
        find = options.find or Finder(None, options.clock).find
        name = model_name(options) or recorded
        if not name.startswith(PREFIX):  # a recording is in the store, and is looked for when that is open
            find(name)


async def about_session(session: Session, options: Options) -> About:
    """What `session` has: its folder, model and tools, and what was found around it."""
    about = About(
        cwd=(await session.store.meta(session.id)).cwd,
        tools=session.tools,
        model=model_name(options) or session.model,
        mode=options.permission_mode or session.permission_mode,
        seq=session.seq,
    )
    kit = session.kit
    if kit is None:
        return about
    return replace(
        about,
        commands=tuple(spec.name for spec in session.list_commands()),
        skills=tuple(each.name for each in kit.found.skills),
        agents=tuple(each.name for each in kit.found.usable_agents),
        plugins=tuple((each.name, str(each.folder)) for each in kit.plugins),
        servers=tuple(
            (name, status.state, str(status.server.get("scope", ""))) for name, status in kit.server_status().items()
        ),
    )
