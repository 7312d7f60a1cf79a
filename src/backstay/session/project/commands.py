"""Where the commands of a session come from: built in, skills, files of one's own, and prompts of servers."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from backstay.commands import control, conversation, project
from backstay.commands.registry import Fixed, Looked
from backstay.commands.spec import Command, CommandCall, CommandModule, CommandResult, CommandSpec, Submission
from backstay.session.project.context import ProjectContext
from backstay.vocab.errors import UserError

if TYPE_CHECKING:
    from backstay.skills.skill import Skill

BUILT_IN = Fixed("built-in", (*conversation.COMMANDS, *control.COMMANDS, *project.COMMANDS))
"""The commands that every session has."""


def modules_of(kit: ProjectContext) -> tuple[CommandModule, ...]:
    """The commands of a session with this kit: what is built in goes before what was found."""
    found = Looked("skills and commands", partial(_found, kit))
    prompts = Looked("prompts of servers", partial(_prompts, kit))
    return (CommandModule(name="built-in", sources=(BUILT_IN, found, prompts)),)


def _found(kit: ProjectContext) -> Iterator[Command]:
    for skill in (*kit.found.skills, *kit.found.commands):
        spec = CommandSpec(
            name=skill.name,
            description=skill.description,
            argument_hint=skill.argument_hint,
            model_invocable=skill.model_invocable,
            user_invocable=skill.user_invocable,
            source="plugin" if skill.plugin else "skill" if skill.kind == "skill" else "custom",
            origin=skill.plugin or skill.file,
        )
        if skill.fork:
            yield Command(spec=spec, execute=partial(_forked, skill))
        else:
            yield Command(spec=spec, expand=partial(_said, skill))


async def _said(skill: "Skill", call: CommandCall) -> Submission:
    prompt, display = await call.kit.said_by(skill, call.args.strip())
    await call.session.note_skill(skill.name, display, mode="inject", by="user")
    return Submission(prompt=prompt, display=display, skill=skill.name)


async def _forked(skill: "Skill", call: CommandCall) -> CommandResult:
    """Run a skill in a child session of its own, whatever the model thinks of it."""
    try:
        prompt, display = await call.kit.said_by(skill, call.args.strip())
        text = await call.session.fork_skill(skill, prompt, display)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return CommandResult(message=text, data={"skill": skill.name, "forked": True})


def _prompts(kit: ProjectContext) -> Iterable[Command]:
    for prompt in kit.servers.prompts if kit.servers is not None else ():
        spec = CommandSpec(
            name=prompt.command,
            description=prompt.description,
            argument_hint=prompt.usage.partition(" ")[2],
            source="mcp",
            origin=prompt.server,
        )
        yield Command(spec=spec, expand=_prompted)


async def _prompted(call: CommandCall) -> Submission:
    assert call.kit.servers is not None
    written = await call.kit.servers.prompt(call.name, call.words)
    if written.failed:
        raise UserError(written.text)
    await call.kit.meet_strangers(call.name)
    return Submission(prompt=written.text, display=f"/{call.name} {call.args}".rstrip())
