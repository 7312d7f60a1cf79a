"""The tools of a session, by name."""

import pytest

from backstay.tools.define import tool
from backstay.tools.files.edit import edit_file
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from backstay.tools.shell.bash import run_command
from backstay.tools.toolset import Toolset
from backstay.vocab.errors import UserError

TOOLS = Toolset.of(read_file, write_file, edit_file, run_command)


def test_tools_keep_their_order_and_say_what_they_do() -> None:
    assert [spec.name for spec in TOOLS.specs()] == ["Read", "Write", "Edit", "Bash"]
    assert [(spec.effect, spec.touches) for spec in TOOLS.specs()] == [
        ("pure", "reads"),
        ("once", "edits"),
        ("once", "edits"),
        ("once", "runs"),
    ]
    assert len(TOOLS) == 4
    assert TOOLS.get("Read") in list(TOOLS)
    assert TOOLS.get("Reed") is None


def test_a_set_is_narrowed_in_its_own_order_and_never_widened() -> None:
    assert [spec.name for spec in TOOLS.only(["Bash", "Read", "Bash"]).specs()] == ["Read", "Bash"]
    assert len(TOOLS.only([])) == 0
    with pytest.raises(UserError, match=r"There is no tool 'Reed'\. Did you mean 'Read'"):
        TOOLS.only(["Bash", "Reed"])


def test_two_tools_of_one_name_are_refused() -> None:
    @tool(name="Read")
    def other() -> None: ...

    with pytest.raises(UserError, match="Two tools are called 'Read'"):
        Toolset.of(*TOOLS, other)


def test_a_plain_function_is_refused() -> None:
    with pytest.raises(UserError, match="Put @tool on the function"):
        Toolset.of(print)  # type: ignore[arg-type]  # what the test is about


@pytest.mark.contract("RV-B11")
@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        (
            "read",
            "{}",
            "unknown_tool",
            "There is no tool 'read'. Did you mean 'Read'? The tools are Read, Write, Edit, Bash.",
        ),
        ("Teleport", "{}", "unknown_tool", "There is no tool 'Teleport'. The tools are Read, Write, Edit, Bash."),
        ("Bash", '{"command": "ls', "bad_arguments", "truncated, after all of its 15 characters"),
        ("Bash", '{"command" "ls"}', "bad_arguments", "(byte 11), at character 12 of 16"),
        ("Bash", '{"ü": 1, }', "bad_arguments", "(byte 10)"),
        ("Bash", "", "bad_arguments", "empty"),
        ("Bash", '["ls"]', "bad_arguments", "a JSON array, not an object"),
        ("Bash", "null", "bad_arguments", "a JSON null"),
        ("Bash", '"ls"', "bad_arguments", "a JSON string"),
        ("Bash", "true", "bad_arguments", "a JSON boolean"),
        ("Bash", "1", "bad_arguments", "a JSON number"),
        ("Bash", '{"command": "\ud800"}', "bad_arguments", "surrogates"),
        ("Bash", '{"a":' * 5000, "bad_arguments", "recursion"),
        ("Bash", "{}", "bad_arguments", "Missing argument 'command' (string)."),
        ("Bash", '{"command": 1}', "bad_arguments", "Argument 'command': Expected `str`, got `int`."),
        ("Bash", '{"command": "ls", "timeout": 0}', "bad_arguments", "Argument 'timeout': Expected `int` >= 1."),
    ],
)
def test_a_call_that_cannot_run_is_explained(name: str, text: str, code: str, words: str) -> None:
    found, message, args = TOOLS.inspect(name, text)

    assert (found, args) == (code, {})
    assert words in message


def test_a_call_that_can_run_gives_its_arguments() -> None:
    assert TOOLS.inspect("Bash", ' {"command": "ls"}\n') == ("", "", {"command": "ls"})


def test_without_tools_there_is_nothing_to_suggest() -> None:
    assert Toolset.of().inspect("Read", "{}")[1] == "There is no tool 'Read': this session has no tools."
