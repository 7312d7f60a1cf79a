"""Skills: a folder with a `SKILL.md`, or a Markdown file that is a command of one's own. Only what the top of the file says is kept."""

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final, Literal

import msgspec
from msgspec import Struct

from backstay.skills.frontmatter import Fields, Frontmatter, Patience, good_name, read_frontmatter
from backstay.skills.problems import SkillProblem, Unusable
from backstay.system.files import read_regular

Source = Literal["project", "person", "plugin", "built-in"]
Kind = Literal["skill", "command"]
SKILL_FILES: Final = ("SKILL.md", "skill.md")
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1_024
LONGEST_TEXT: Final = 8 * 1024
"""Characters of a description that is taken at all; the standard's own limit is only warned about, since people pass it."""
LONGEST_LISTED: Final = 1_536
"""Characters of a description with its `when_to_use` that a model is shown."""
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
KEYS: Final = frozenset(
    (
        "name description license compatibility metadata allowed-tools when-to-use argument-hint arguments "
        "disable-model-invocation user-invocable disallowed-tools model effort context agent background hooks paths shell "
        "version"
    ).split()
)


class FileOrigin(Struct, frozen=True, kw_only=True):
    """The origin of a file, which decides what it may do."""

    source: Source
    trusted: bool = True
    """Whether it may run, allow and choose: false for a project that the person does not trust."""
    plugin: str = ""
    """The plugin's name, which goes before the names of what it brings."""
    plugin_root: str = ""
    plugin_data: str = ""

    def qualify(self, name: str) -> str:
        """Return the name under which something from here is known."""
        return f"{self.plugin}:{name}" if self.plugin else name


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A skill, or a command of one's own, as far as it is known before it is invoked."""

    name: str
    description: str
    file: str
    folder: str
    """Of a skill its own folder; of a command the one that its file is in."""
    source: Source
    kind: Kind = "skill"
    plugin: str = ""
    plugin_root: str = ""
    plugin_data: str = ""
    trusted: bool = True
    """Whether its commands may run. What an untrusted one asks for beyond being read is left out of the other fields."""
    sha256: str = ""
    """Of the file, as it was when it was listed."""
    when_to_use: str = ""
    argument_hint: str = ""
    arguments: tuple[str, ...] = ()
    """Names for the arguments, in order."""
    model_invocable: bool = True
    user_invocable: bool = True
    allowed_tools: tuple[str, ...] | None = None
    """The only tools of a fork; what an invocation in the conversation may use without asking is `grants`. None: not said."""
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    fork: bool = False
    agent: str = ""
    """Who runs a fork; empty for the usual agent."""
    background: bool = False
    hooks: dict[str, object] | None = None
    """As they are written, in the shape of settings."""
    paths: tuple[str, ...] = ()
    shell: str = ""
    withheld: tuple[str, ...] = ()
    """The keys that do nothing because the workspace is not trusted."""

    @property
    def grants(self) -> tuple[str, ...]:
        """Rules for what its own inclusions may use without asking; none of one that is not trusted, and a plugin allows nothing."""
        return self.allowed_tools or () if self.trusted and self.source != "plugin" else ()

    @property
    def listing(self) -> str:
        """What a model is told about it before it is invoked: the description and when to use it, within bounds."""
        text = " ".join(f"{self.description} {self.when_to_use}".split())
        return text if len(text) <= LONGEST_LISTED else f"{text[: LONGEST_LISTED - 1]}…"


def read_skill(
    content: bytes, file: PurePath, origin: FileOrigin, patience: Patience | None = None
) -> tuple[Skill, tuple[SkillProblem, ...]]:
    """Return the skill that a `SKILL.md` describes, and warnings about it. Raise `Unusable` when it cannot be one."""
    head = read_frontmatter(content, str(file), patience=patience)
    fields = Fields(head, str(file))
    if not head.present:
        raise Unusable(str(file), 1, "A skill must begin with a frontmatter: `---`, a name, a description, `---`.")
    name = _name(fields, file.parent.name)
    description = fields.text("description")
    if not description:
        raise fields.unusable("description", f"The skill {name!r} has no description. Say in one what it is for.")
    skill = _read(fields, name, description, file, origin, "skill", content)
    return skill, tuple(fields.problems)


def read_command(
    content: bytes, file: PurePath, name: str, origin: FileOrigin, patience: Patience | None = None
) -> tuple[Skill, tuple[SkillProblem, ...]]:
    """Return the command of one's own that a Markdown file describes. Its name comes from where it is. Raise `Unusable`."""
    head = read_frontmatter(content, str(file), patience=patience)
    fields = Fields(head, str(file))
    if "name" in fields:
        fields.warn("name", f"The name of a command comes from its file. It is {name!r}, whatever stands here.")
    if not head.body.strip():
        raise Unusable(str(file), 1, "The command says nothing. Write below the frontmatter what is to be done.")
    description = fields.text("description") or _first_words(head.body)
    skill = _read(fields, name, description, file, origin, "command", content)
    return skill, tuple(fields.problems)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def _name(fields: Fields, folder: str) -> str:
    name = unicodedata.normalize("NFKC", fields.text("name"))
    if not name:
        raise fields.unusable("name", f"The skill has no name. Write `name: {folder}` into its frontmatter.")
    if not good_name(name):
        if not good_name(folder):
            message = f"{name[:80]!r} cannot be a skill's name. Use up to {LONGEST_NAME} letters, digits and hyphens."
            raise fields.unusable("name", message)
        fields.warn(
            "name", f"{name[:80]!r} cannot be typed as a name. The skill is called {folder!r}, like its folder."
        )
        return folder
    if name != unicodedata.normalize("NFKC", folder):
        fields.warn("name", f"The skill is called {name!r} and its folder {folder!r}. They should be the same.")
    return name


def _read(
    fields: Fields, name: str, description: str, file: PurePath, origin: FileOrigin, kind: Kind, content: bytes
) -> Skill:
    if len(description) > LONGEST_TEXT:
        message = f"The description has {len(description):,} characters; {LONGEST_TEXT:,} are the most."
        raise fields.unusable("description", message)
    if len(description) > LONGEST_DESCRIPTION and kind == "skill":
        message = f"The description has {len(description):,} characters; the standard has {LONGEST_DESCRIPTION:,}."
        fields.warn("description", message)
    for key in fields.unknown(KEYS):
        fields.warn(key, f"{key!r} means nothing here and is ignored.")
    wanted = _Wanted(fields)
    trusted = origin.trusted
    return Skill(
        name=origin.qualify(name),
        description=description,
        file=str(file),
        folder=str(file.parent),
        source=origin.source,
        kind=kind,
        plugin=origin.plugin,
        plugin_root=origin.plugin_root,
        plugin_data=origin.plugin_data,
        trusted=trusted,
        sha256=digest(content),
        when_to_use=fields.text("when-to-use")[:LONGEST_LISTED],
        argument_hint=fields.text("argument-hint")[:200],
        arguments=_arguments(fields),
        model_invocable=trusted and not fields.flag("disable-model-invocation", default=False, unclear=True),
        user_invocable=fields.flag("user-invocable", default=True, unclear=False),
        allowed_tools=_read_allowed_tools(fields),
        disallowed_tools=fields.names("disallowed-tools") or (),
        model=wanted.model if trusted else "",
        effort=fields.choice("effort", EFFORTS),
        fork=_fork(fields),
        agent=fields.text("agent"),
        background=fields.flag("background", default=False, unclear=False),
        hooks=wanted.hooks if trusted else None,
        paths=fields.names("paths", brackets="{}") or (),
        shell=fields.choice("shell", ("bash", "powershell")),
        withheld=() if trusted else wanted.keys,
    )


class _Wanted:
    """The requests of a file that only a trusted one is granted."""

    def __init__(self, fields: Fields) -> None:
        hooks = fields.raw("hooks")
        if hooks is not None and not isinstance(hooks, Mapping):
            raise fields.unusable("hooks", "'hooks' must be a mapping of events, as in the settings.")
        self.hooks = dict(hooks) if hooks else None
        self.model = fields.model()
        self.keys = tuple(key for key in ("allowed-tools", "hooks", "model") if key in fields)


def _read_allowed_tools(fields: Fields) -> tuple[str, ...] | None:
    """Return the allowed tools; none at all when it cannot be told which are meant."""
    try:
        return fields.names("allowed-tools")
    except Unusable as exc:
        fields.warn("allowed-tools", f"{exc.problem.message} So no tool is allowed.")
        return ()


def _arguments(fields: Fields) -> tuple[str, ...]:
    names = fields.names("arguments") or ()
    bad = next((name for name in names if not name.isidentifier() or name == "ARGUMENTS"), None)
    if bad is not None:
        raise fields.unusable("arguments", f"{bad[:80]!r} cannot be an argument's name. Use letters, digits and `_`.")
    return names


def _fork(fields: Fields) -> bool:
    word = fields.text("context")
    if word not in ("", "fork", "inline"):
        raise fields.unusable("context", f"{word[:80]!r} is not a context. Write `fork`, or leave it out.")
    return word == "fork"


def _first_words(body: str) -> str:
    """Return a description for a command that has none: the first line that says something."""
    line = next(each for each in body.splitlines() if each.strip())
    return line.strip().lstrip("#").strip()[:200] or "A command of one's own."


LARGEST: Final = 512 * 1024
"""Bytes of a `SKILL.md`, or of any other Markdown file that is read as a whole."""
LONGEST_COMPATIBILITY: Final = 500
STANDARD: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def validate_skill(folder: Path) -> list[SkillProblem]:
    """Return everything that the standard has against the skill in `folder`; empty when it is valid. Never raises."""
    if not folder.is_dir():
        what = "This is not a folder." if folder.exists() else "There is nothing here."
        return [SkillProblem(file=str(folder), line=1, message=f"{what} Name the folder that the SKILL.md is in.")]
    file = skill_file(folder)
    if file is None:
        return [
            SkillProblem(file=str(folder), line=1, message="There is no SKILL.md in this folder. A skill needs one.")
        ]
    try:
        content, _ = read_regular(file, LARGEST)
        head = read_frontmatter(content, str(file), strict=True)
    except Unusable as exc:
        return [exc.problem]
    except OSError as exc:
        return [SkillProblem(file=str(file), line=1, message=f"It cannot be read: {exc.strerror}.")]
    if not content.startswith(b"---") or not head.present:
        return [
            SkillProblem(file=str(file), line=1, message="A skill must begin with a frontmatter, between lines of ---.")
        ]
    return [
        SkillProblem(file=str(file), line=head.lines.get(key, 1), message=message)
        for key, message in _complaints(head, folder)
    ]


def skill_file(folder: Path) -> Path | None:
    """Return the file that describes the skill in `folder`; `SKILL.md` goes before `skill.md`."""
    return next((file for name in SKILL_FILES if (file := folder / name).exists()), None)


def _complaints(head: Frontmatter, folder: Path) -> Iterator[tuple[str, str]]:
    for key in head.values:
        if key not in STANDARD:
            yield key, f"{key[:80]!r} is not a key of the standard. Its keys are {', '.join(STANDARD)}."
    for key in ("name", "description"):
        value = head.values.get(key)
        if value is None:
            yield key, f"The frontmatter has no {key!r}. A skill must have one."
        elif not isinstance(value, str) or not value.strip():
            yield key, f"{key!r} must be a text that says something."
        else:
            yield from (
                (key, text) for text in (_about_name(value, folder) if key == "name" else _too_long(key, value))
            )
    compatibility = head.values.get("compatibility")
    if isinstance(compatibility, str):
        yield from (("compatibility", text) for text in _too_long("compatibility", compatibility))
    elif compatibility is not None:
        yield "compatibility", "'compatibility' must be a text."


def _about_name(given: str, folder: Path) -> Iterator[str]:
    name = unicodedata.normalize("NFKC", given.strip())
    yield from _too_long("name", name)
    if name != name.lower():
        yield f"The name {name[:80]!r} must be in lower case."
    if name.startswith("-") or name.endswith("-"):
        yield f"The name {name[:80]!r} must not begin or end with a hyphen."
    if "--" in name:
        yield f"The name {name[:80]!r} must not have two hyphens in a row."
    if not all(character.isalnum() or character == "-" for character in name):
        yield f"The name {name[:80]!r} must have letters, digits and hyphens only."
    if unicodedata.normalize("NFKC", folder.absolute().name) != name:
        yield f"The name {name[:80]!r} must be that of the folder, {folder.absolute().name!r}."


def _too_long(key: str, value: str) -> Iterator[str]:
    most = {"name": LONGEST_NAME, "description": LONGEST_DESCRIPTION, "compatibility": LONGEST_COMPATIBILITY}[key]
    if len(value) > most:
        yield f"{key!r} has {len(value):,} characters; {most:,} are the most."
