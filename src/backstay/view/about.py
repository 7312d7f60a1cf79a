"""What a session has when it is opened, for whoever reads its first line."""

from msgspec.structs import replace

from backstay.options import Options
from backstay.session import Session
from backstay.view.account import About
from backstay.view.job import model_name


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
