"""Render a skill: put in the arguments, and what its text includes once the policy has allowed all of it."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import anyio.to_thread
from msgspec import Struct

from backstay.logic.text import frame, frame_framed, read_visible
from backstay.skills.frontmatter import read_frontmatter
from backstay.skills.includes import Arguments, FileInclusion, Inclusion, Piece, ShellInclusion, Substitution, pieces
from backstay.skills.skill import LARGEST, Skill, digest
from backstay.system.files import read_regular
from backstay.vocab.errors import UserError

MOST_INCLUSIONS: Final = 50
LONGEST_INCLUSION: Final = 256 * 1024
"""Characters of an output or a file that are put in; the rest is cut, and the text says so."""
LONGEST: Final = 1024 * 1024
"""Characters of everything together."""


class InvocationAborted(UserError):
    """A skill was not invoked, because something that it includes may not be had or could not be."""

    code = "Skill.InvocationAborted"


class SkillContext(Struct, frozen=True, kw_only=True):
    """The values that the text of a skill may refer to."""

    session_id: str
    project_dir: str
    effort: str = ""


class Rendered(Struct, frozen=True, kw_only=True):
    """The text of a skill with its arguments, in pieces: what is said, and what is to be put in."""

    skill: Skill
    arguments: str
    pieces: tuple[Piece, ...]

    @property
    def inclusions(self) -> tuple[Inclusion, ...]:
        """What is to be put in, in order. Nothing of it was run or read."""
        return tuple(piece for piece in self.pieces if not isinstance(piece, str))

    @property
    def display(self) -> str:
        """What a person would have typed for it: this is what histories show."""
        return f"/{self.skill.name} {self.arguments}".rstrip()


class Judged(Struct, frozen=True, kw_only=True):
    """The verdict of the policy on an inclusion."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""


Judge = Callable[[Inclusion], Awaitable[Judged]]
Run = Callable[[Inclusion], Awaitable[str | None]]
"""Brings what an inclusion stands for; None for a file that is not there: then the text stays. Raises `UserError` when it fails."""


async def render(skill: Skill, arguments: str, surroundings: SkillContext) -> Rendered:
    """Read the text of a skill and put the arguments in. Raise `UserError` when it is not as it was listed, or may not do what it wants."""
    body = await anyio.to_thread.run_sync(read_body, skill)
    return compose(skill, body, arguments, surroundings)


def read_body(skill: Skill) -> str:
    """Return the text of a skill as people see it, without its frontmatter. Raise `UserError` when it is gone, or not what was trusted."""
    try:
        content, _ = read_regular(Path(skill.file), LARGEST)
    except OSError as exc:
        raise UserError(f"The {skill.kind} {skill.name!r} cannot be read: {skill.file!r}: {exc.strerror}.") from exc
    if skill.source == "project" and digest(content) != skill.sha256:
        raise UserError(
            f"{skill.file!r} is not as it was when this session looked at it. Look at the change, then start again."
        )
    return read_visible(read_frontmatter(content, skill.file).body).text


def compose(skill: Skill, body: str, arguments: str, surroundings: SkillContext) -> Rendered:
    """Put the arguments into the text of a skill. Raise `UserError` when one that is not trusted wants to run commands."""
    given = Arguments(text=arguments, names=skill.arguments, variables=_variables(skill, surroundings))
    substitution = Substitution(given)
    found = tuple(pieces(body.strip("\n"), substitution, shell=skill.shell))
    if not skill.trusted:
        found = tuple(_check_untrusted(skill, found))
    if arguments.strip() and not substitution.used:
        found = (*found, f"\nARGUMENTS: {arguments}")
    if sum(not isinstance(piece, str) for piece in found) > MOST_INCLUSIONS:
        raise UserError(f"{skill.file!r} includes more than {MOST_INCLUSIONS} files and commands.")
    return Rendered(skill=skill, arguments=arguments, pieces=found)


async def expand(rendered: Rendered, run: Run, *, judge: Judge) -> str:
    """Return the whole text. Judge every inclusion before the first one is run.

    Raise `InvocationAborted` when anything is not allowed, or cannot be brought. What was brought is put in as it is: nothing in it is
    replaced or run.
    """
    for each in rendered.inclusions:
        verdict = await judge(each)
        if verdict.decision != "allow":
            raise _abort(rendered, each, verdict.reason or f"the policy says {verdict.decision!r}")
    made: list[str] = []
    left = LONGEST
    for piece in rendered.pieces:
        text = piece if isinstance(piece, str) else await _run_inclusion(rendered, piece, run)
        left -= len(text)
        if left < 0:
            raise InvocationAborted(f"The text of {rendered.skill.name!r} with all that it includes is too long.")
        made.append(text)
    return "".join(made).strip("\n")


def frame_skill(rendered: Rendered, text: str) -> str:
    """Return what the model is told when a skill is invoked in the conversation: its text, framed, and what it is for now."""
    skill = rendered.skill
    about = " ".join(rendered.arguments.split())
    purpose = f": {' '.join(skill.description.split())}" if skill.kind == "skill" else ""
    words = f"with these arguments: {about}" if about else f"now{purpose or '.'}"
    return f"{frame_framed('skill', text, {'name': skill.name})}\nFollow the skill {skill.name!r} {words}"


async def _run_inclusion(rendered: Rendered, inclusion: Inclusion, run: Run) -> str:
    try:
        text = await run(inclusion)
    except UserError as exc:
        raise _abort(rendered, inclusion, str(exc)) from exc
    if isinstance(inclusion, ShellInclusion):
        return _cut_inclusion((text or "").rstrip("\n"))
    if text is None:
        return str(inclusion)
    return frame("file", _cut_inclusion(text.rstrip("\n")), {"path": inclusion.path})


def _cut_inclusion(text: str) -> str:
    if len(text) <= LONGEST_INCLUSION:
        return text
    return f"{text[:LONGEST_INCLUSION]}\n[cut: {len(text) - LONGEST_INCLUSION:,} characters more]"


def _abort(rendered: Rendered, inclusion: Inclusion, why: str) -> InvocationAborted:
    skill = rendered.skill
    return InvocationAborted(
        f"The {skill.kind} {skill.name!r} was not invoked: {str(inclusion)[:200]!r} (line {inclusion.line} of its text) "
        f"is not to be had: {why}"
    )


def _check_untrusted(skill: Skill, found: tuple[Piece, ...]) -> Iterator[Piece]:
    for piece in found:
        if isinstance(piece, ShellInclusion):
            raise UserError(
                f"The {skill.kind} {skill.name!r} would run {str(piece)[:200]!r}, and its workspace is not trusted. "
                "Look at it, then: backstay trust"
            )
        yield str(piece) if isinstance(piece, FileInclusion) else piece


def _variables(skill: Skill, surroundings: SkillContext) -> dict[str, str]:
    values = {
        "SESSION_ID": surroundings.session_id,
        "EFFORT": surroundings.effort or skill.effort,
        "SKILL_DIR": skill.folder,
        "PROJECT_DIR": surroundings.project_dir,
        "PLUGIN_ROOT": skill.plugin_root,
        "PLUGIN_DATA": skill.plugin_data,
    }
    return {f"{prefix}_{name}": value for name, value in values.items() for prefix in ("CLAUDE", "BACKSTAY")}
