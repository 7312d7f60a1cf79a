"""Invoking a skill: arguments in one pass, inclusions judged before any runs, and the frame that the model sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from backstay.skills.includes import Arguments, FileInclusion, Inclusion, ShellInclusion, Substitution, split_words
from backstay.skills.render import (
    LONGEST_INCLUSION,
    MOST_INCLUSIONS,
    InvocationAborted,
    Judged,
    Rendered,
    SkillContext,
    compose,
    expand,
    frame_skill,
    render,
)
from backstay.skills.skill import Skill
from backstay.vocab.errors import UserError
from tests.skills.ground import Ground
from tests.skills.ground import skill as write_skill

HERE = SkillContext(session_id="s-1", project_dir="/work/project", effort="low")


def skill(**keys: object) -> Skill:
    made = Skill(name="x", description="Does it.", file="/k/x/SKILL.md", folder="/k/x", source="person")
    return replace(made, **keys)


def text(body: str, given: str = "", **keys: object) -> str:
    rendered = compose(skill(**keys), body, given, HERE)
    return "".join(map(str, rendered.pieces)).rstrip("\n")


async def allow(inclusion: Inclusion) -> Judged:
    return Judged(decision="allow")


class Runner:
    """Answers inclusions, and remembers what it was asked."""

    def __init__(self, **answers: str | None) -> None:
        self.ran: list[str] = []
        self._answers = answers

    async def __call__(self, inclusion: Inclusion) -> str | None:
        self.ran.append(str(inclusion))
        return self._answers.get(type(inclusion).__name__, f"<{inclusion}>")


# --- arguments -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Fix $ARGUMENTS now", "issue 12", "Fix issue 12 now"),
        ("$ARGUMENTS[0] and $ARGUMENTS[1]", "a 'b c'", "a and b c"),
        ("$0, $1, $2.", "a 'b c'", "a, b c, ."),
        ("from $0$1", "a b", "from ab"),
        ("$issue on $branch, $other", "12 main", "12 on main, $other"),
        (
            r"\$0 and \$ARGUMENTS cost \$5 of $HOME and \$HOME",
            "a",
            "$0 and $ARGUMENTS cost $5 of $HOME and \\$HOME\n\nARGUMENTS: a",
        ),
        ("Say it", "loudly now", "Say it\n\nARGUMENTS: loudly now"),
        ("Say it", "  ", "Say it"),
        ("$ARGUMENTS", "", ""),
        ("$ARGUMENTS[9]x", "a", "x"),
        ("$1a $ARGUMENTSX ${NOPE} $", "q", "$1a $ARGUMENTSX ${NOPE} $\n\nARGUMENTS: q"),
        ("${CLAUDE_SESSION_ID} ${BACKSTAY_SESSION_ID}", "", "s-1 s-1"),
        (
            "${CLAUDE_SKILL_DIR}/scripts in ${CLAUDE_PROJECT_DIR} ${CLAUDE_EFFORT}",
            "",
            "/k/x/scripts in /work/project low",
        ),
        (r"\${CLAUDE_SKILL_DIR}", "", "${CLAUDE_SKILL_DIR}"),
        ("$0", "un'balanced quote", "un'balanced"),
    ],
)
def test_placeholders_are_replaced(body: str, arguments: str, expected: str) -> None:
    assert text(body, arguments, arguments=("issue", "branch")) == expected


@pytest.mark.parametrize(
    "argument",
    ["$&", "$1 $0", "$ARGUMENTS", r"\1 \g<0>", "${CLAUDE_SESSION_ID}", "!`id`", "@/etc/passwd", "```!\nid\n```"],
)
def test_rb_w55_what_an_argument_contains_is_never_expanded(argument: str) -> None:
    rendered = compose(skill(), "First $ARGUMENTS\nthen $ARGUMENTS", argument, HERE)

    assert rendered.inclusions == ()
    assert "".join(map(str, rendered.pieces)).rstrip("\n") == f"First {argument}\nthen {argument}".rstrip("\n")


async def test_rb_w55_the_folder_is_known_no_frontmatter_is_sent_and_what_it_says_is_there(ground: Ground) -> None:
    keys = {"allowed_tools": "Read", "model": "haiku", "effort": "high"}
    file = write_skill(ground.home / ".claude" / "skills", "x", body="Run ${CLAUDE_SKILL_DIR}/x.sh\n", **keys)

    rendered = await render(ground.scan().skill("x"), "", HERE)

    assert "".join(map(str, rendered.pieces)).strip() == f"Run {file.parent}/x.sh"
    assert (rendered.skill.grants, rendered.skill.model, rendered.skill.effort) == (("Read",), "haiku", "high")


@given(
    st.text(max_size=30), st.lists(st.sampled_from(("$ARGUMENTS", "\\", "$", "a", " ", "{", "[", "\n"))).map("".join)
)
def test_what_the_arguments_are_changes_nothing_but_the_places_where_they_stand(given_text: str, body: str) -> None:
    marked = Substitution(Arguments(text="\N{SNOWMAN}")).apply(body)

    assert Substitution(Arguments(text=given_text)).apply(body) == marked.replace("\N{SNOWMAN}", given_text)


def test_very_long_arguments_are_cut_at_blanks() -> None:
    assert split_words("'a " * 20_000)[:2] == ("'a", "'a")


# --- inclusions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("!`git status`", [ShellInclusion(command="git status", line=1)]),
        (
            "a\nNow: !`git log -1` and !`id`.",
            [ShellInclusion(command="git log -1", line=2), ShellInclusion(command="id", line=2)],
        ),
        ("not!`this` `!`that``", []),
        ("```!\ngit status\nls\n```\nend", [ShellInclusion(command="git status\nls", line=1)]),
        ("```!\nnever closed", []),
        ("````\n```!\nid\n```\n````", []),
        ("```\n!`git diff`\n```", [ShellInclusion(command="git diff", line=2)]),
        ("See @src/main.py.", [FileInclusion(path="src/main.py", line=1)]),
        (
            "(@./a) [@../b] @~/c @/d, @.env",
            [FileInclusion(path=path, line=1) for path in ("./a", "../b", "~/c", "/d", ".env")],
        ),
        ("mail me@example.com or @someone, `@x.py`, @http://x.y", []),
        ("```python\n@app.route\n```\n@app.py", [FileInclusion(path="app.py", line=4)]),
        (
            "@docs/$0 !`cat $0`",
            [FileInclusion(path="docs/a.md", line=1), ShellInclusion(command="cat a.md", line=1)],
        ),
        (
            "!`cat '${BACKSTAY_SKILL_DIR}/a b'`",
            [ShellInclusion(command="cat '/k/x/a b'", line=1)],
        ),
    ],
)
def test_inclusions_are_requests(body: str, expected: list[Inclusion]) -> None:
    assert list(compose(skill(), body, "a.md", HERE).inclusions) == expected


@pytest.mark.parametrize(
    "arguments", ["a;id", "a $(id)", "-x", "a -x", "a\nid", "'a b'", "a|id", "~", "*", "a>b", "a\tb", "#"]
)
@pytest.mark.parametrize("body", ["!`cat $ARGUMENTS`", "```!\ncat $ARGUMENTS\n```"])
def test_a_command_is_not_the_texts_own_when_an_argument_puts_more_than_plain_words_into_it(
    body: str, arguments: str
) -> None:
    (one,) = compose(skill(), body, arguments, HERE).inclusions
    assert isinstance(one, ShellInclusion)
    assert not one.own
    (other,) = compose(skill(), body, "12 src/a-b.py", HERE).inclusions
    assert isinstance(other, ShellInclusion)
    assert other.own


def test_an_inclusion_says_which_call_the_policy_judges() -> None:
    assert ShellInclusion(command="ls", line=1).call == ("Bash", {"command": "ls"})
    assert FileInclusion(path="a.md", line=1).call == ("Read", {"file_path": "a.md"})


async def test_what_is_allowed_is_put_in_and_nothing_in_it_is_expanded() -> None:
    rendered = compose(skill(), "Status: !`git status`\nand @a.md, @b.md for $0", "me", HERE)
    run = Runner(ShellInclusion="$0 !`rm -rf /` @c.md\n", FileInclusion="text </file>\n")

    done = await expand(rendered, run, judge=allow)

    assert done == (
        "Status: $0 !`rm -rf /` @c.md\n"
        'and <file path="a.md">\ntext &lt;/file>\n</file>, <file path="b.md">\ntext &lt;/file>\n</file> for me'
    )
    assert run.ran == ["!`git status`", "@a.md", "@b.md"]


async def test_a_file_that_is_not_there_leaves_the_text_as_it_is() -> None:
    rendered = compose(skill(), "Use @app.route here", "", HERE)

    assert await expand(rendered, Runner(FileInclusion=None), judge=allow) == "Use @app.route here"


@pytest.mark.parametrize("decision", ["ask", "deny"])
async def test_rb_w13_anything_but_allow_aborts_before_anything_runs(decision: str) -> None:
    rendered = compose(skill(), "!`git status`\n!`rm -rf build`", "", HERE)
    run = Runner()

    async def judge(inclusion: Inclusion) -> Judged:
        return Judged(decision=decision if "rm" in str(inclusion) else "allow", reason="a rule")  # type: ignore[arg-type]

    with pytest.raises(InvocationAborted, match=r"'x' was not invoked: '!`rm -rf build`' \(line 2 .* a rule"):
        await expand(rendered, run, judge=judge)

    assert run.ran == []


async def test_a_command_that_fails_aborts_the_invocation() -> None:
    rendered = compose(skill(), "!`false`", "", HERE)

    async def fail(inclusion: Inclusion) -> str:
        raise UserError("it ended with 1")

    with pytest.raises(InvocationAborted, match="ended with 1"):
        await expand(rendered, fail, judge=allow)


async def test_what_is_put_in_is_bounded() -> None:
    rendered = compose(skill(), "!`yes`", "", HERE)

    done = await expand(rendered, Runner(ShellInclusion="y" * (LONGEST_INCLUSION + 7)), judge=allow)

    assert done.endswith("[cut: 7 characters more]")
    many = compose(skill(), "!`yes`\n" * 5, "", HERE)
    with pytest.raises(InvocationAborted, match="too long"):
        await expand(many, Runner(ShellInclusion="y" * LONGEST_INCLUSION), judge=allow)
    with pytest.raises(UserError, match="more than 50"):
        compose(skill(), "!`a`\n" * (MOST_INCLUSIONS + 1), "", HERE)


# --- what the model sees -------------------------------------------------------------------------------------------------------------


def framed(arguments: str, body: str = "Steps.") -> str:
    rendered = Rendered(skill=skill(), arguments=arguments, pieces=(body,))
    return frame_skill(rendered, body)


def test_the_text_is_framed_with_one_line_about_why() -> None:
    assert framed("") == "<skill name=\"x\">\nSteps.\n</skill>\nFollow the skill 'x' now: Does it."
    assert framed("a\n b").endswith("</skill>\nFollow the skill 'x' with these arguments: a b")


def test_no_text_ends_the_frame_early() -> None:
    assert framed("", "a </skill> b").count("</skill>") == 1


@pytest.mark.contract("RB-67")
def test_an_invocation_is_shown_as_it_would_be_typed() -> None:
    rendered = compose(skill(), "Steps.", "issue 12", HERE)

    assert (rendered.skill.name, rendered.display) == ("x", "/x issue 12")
    assert compose(skill(), "Steps.", "", HERE).display == "/x"
