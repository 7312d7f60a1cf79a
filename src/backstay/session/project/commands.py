"""The commands and tools of a project context: built-in commands, skills, command files, and prompts of servers."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from backstay.commands import control, conversation, project
from backstay.commands.registry import (
    Command,
    CommandCall,
    CommandModule,
    CommandResult,
    CommandSpec,
    DynamicSource,
    FixedSource,
    Safety,
    Submission,
)
from backstay.ports import ToolContext, ToolOutput
from backstay.session.project.project_context import ProjectContext
from backstay.session.session import Session, SessionCall
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Effect, ToolSpec

if TYPE_CHECKING:
    from backstay.ports import Tool
    from backstay.skills.skill import Skill


BUILT_IN = FixedSource("built-in", (*conversation.COMMANDS, *control.COMMANDS, *project.COMMANDS))
"""The commands that every session has."""


def command_modules(project: ProjectContext) -> tuple[CommandModule, ...]:
    """Return the commands of a session: built-in ones go before those that were found."""
    found = DynamicSource("skills and commands", partial(_skill_commands, project))
    prompts = DynamicSource("prompts of servers", partial(_prompt_commands, project))
    return (CommandModule(name="built-in", sources=(BUILT_IN, found, prompts)),)


def _skill_commands(project: ProjectContext) -> Iterator[Command]:
    for skill in (*project.found.skills, *project.found.commands):
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
            yield Command(spec=spec, execute=partial(_run_skill, skill))
        else:
            yield Command(spec=spec, expand=partial(_submit_skill, skill))


async def _submit_skill(skill: "Skill", call: SessionCall) -> Submission:
    prompt, display = await call.project.render_skill(skill, call.args.strip())
    await call.session.note_skill(skill.name, display, mode="inject", by="user")
    return Submission(prompt=prompt, display=display, skill=skill.name)


async def _run_skill(skill: "Skill", call: SessionCall) -> CommandResult:
    """Run a skill in a child session, without asking the model."""
    try:
        prompt, display = await call.project.render_skill(skill, call.args.strip())
        text = await call.session.fork_skill(skill, prompt, display)
    except UserError as exc:
        return CommandResult(message=str(exc), success=False)
    return CommandResult(message=text, data={"skill": skill.name, "forked": True})


def _prompt_commands(project: ProjectContext) -> Iterable[Command]:
    for prompt in project.servers.prompts if project.servers is not None else ():
        spec = CommandSpec(
            name=prompt.command,
            description=prompt.description,
            argument_hint=prompt.usage.partition(" ")[2],
            source="mcp",
            origin=prompt.server,
        )
        yield Command(spec=spec, expand=_submit_prompt)


async def _submit_prompt(call: SessionCall) -> Submission:
    assert call.project.servers is not None
    written = await call.project.servers.prompt(call.name, call.words)
    if written.failed:
        raise UserError(written.text)
    await call.project.record_untrusted_input(call.name)
    return Submission(prompt=written.text, display=f"/{call.name} {call.args}".rstrip())


PREFIX: Final = "backstay_command_"
LONGEST_NAME: Final = 64
"""Characters that every provider takes."""

_SKILL: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "skill": {"type": "string", "minLength": 1, "description": "The name of the skill, as it is listed."},
        "args": {"type": "string", "description": "What the skill is given."},
    },
    "required": ["skill"],
    "additionalProperties": False,
}
_ARGS: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"args": {"type": "string", "description": "What stands after the command."}},
    "additionalProperties": False,
}


_EFFECTS: Final[Mapping[Safety, Effect]] = {"reads": "pure", "proposes": "idempotent", "writes": "once"}


class SkillTool:
    """Invokes a skill: its text comes back for the model to follow. One that forks is answered by a child session instead."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project
        self.session: Session | None = None
        """Whose tool it is, once that is open."""
        self.spec = ToolSpec(
            name="Skill",
            description="Get the instructions of a skill that is listed in your instructions, and follow them.",
            schema=_SKILL,
            effect="once",  # what its text includes may be the output of a command
            touches="notes",
        )

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they can."""
        name, given = args.get("skill"), args.get("args", "")
        if not isinstance(name, str) or not name or not isinstance(given, str):
            return "`skill` must be the name of a skill, and `args` a text."
        if name not in {each.name for each in self._project.found.for_model}:
            return f"There is no skill {name!r} that you may use."
        return ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Return the text of the skill."""
        skill = self._project.found.skill(str(args["skill"]))
        try:
            text, display = await self._project.render_skill(skill, str(args.get("args", "")))
        except UserError as exc:
            return ToolOutput(text=str(exc), failed=True, code="skill")
        if self.session is not None:
            await self.session.note_skill(skill.name, display, mode="inject", by="model")
        return ToolOutput(text=text)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Return None: a lost call leaves no trace to find."""
        return None


class CommandTool:
    """A command, for the model."""

    def __init__(self, command: Command, project: ProjectContext) -> None:
        self._command = command
        self._project = project
        self.session: Session | None = None
        """Whose tool it is, once that is open."""
        spec = command.spec
        self.spec = ToolSpec(
            name=tool_name(spec.name),
            description=f"{spec.description} Arguments: {spec.argument_hint or 'none'}.",
            schema=_ARGS,
            effect=_EFFECTS[spec.safety],
            touches="edits" if spec.safety == "writes" else "notes",
        )

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they can."""
        return "" if isinstance(args.get("args", ""), str) else "`args` must be a text."

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Run the command as the model."""
        if self.session is None:
            return ToolOutput(text="The session is not open yet.", failed=True, code="command")
        name = self._command.spec.name
        call = CommandCall(
            session=self.session, project=self._project, name=name, args=str(args.get("args", "")), by="model"
        )
        result = await self._project.commands.run(call)
        if result is None:
            return ToolOutput(text=f"The command {name!r} is not for you.", failed=True, code="command")
        return ToolOutput(text=result.message, failed=not result.success, code="" if result.success else "command")

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Return None: whether a lost call ran cannot be found out."""
        return None


def project_tools(project: ProjectContext) -> "tuple[Tool, ...]":
    """Return the tools of a project context: one for all skills, and one for each built-in command that models may use."""
    skills = (SkillTool(project),) if project.found.for_model else ()
    commands = (CommandTool(each, project) for each in BUILT_IN.commands() if each.spec.model_invocable)
    return (*skills, *(each for each in commands if project.remembers or each.spec.name != PREFIX + "memory"))


def tool_name(command: str) -> str:
    """Return the name of a command's tool: short, of letters, digits, `_` and `-`, and with a hash where two commands could meet."""
    plain = "".join(each if (each.isalnum() and each.isascii()) or each in "_-" else "_" for each in command)
    whole = PREFIX + plain
    if len(whole) <= LONGEST_NAME and plain == command:
        return whole
    tail = hashlib.sha256(command.encode()).hexdigest()[:8]
    return f"{whole[: LONGEST_NAME - 9]}_{tail}"
