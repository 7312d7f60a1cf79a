"""The table of programs, and the readers of little languages."""

import pytest

from holdfast.logic.shell import about_awk, about_sed, read_command
from holdfast.logic.shell.known import effect_of
from holdfast.logic.shell.options import Options, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import programs, wrappers
from tests.logic.shell.reader import GROUND


@pytest.mark.parametrize("name", sorted(programs()))
def test_every_program_of_the_table_can_be_looked_up(name: str) -> None:
    for arguments in ([], ["x"], ["--unknown-option"], ["-"], ["--"]):
        effect_of([Field(name, name), *(Field(word, word) for word in arguments)], Scope(GROUND))


@pytest.mark.parametrize(
    "name",
    sorted(
        name for name, program in programs().items() if program.does == "reads" and not (program.loose or program.by)
    ),
)
def test_an_option_that_is_not_known_is_mistrusted_where_options_can_be_dangerous(name: str) -> None:
    effect = effect_of([Field(name, name), Field("--surely-not-an-option", "x")], Scope(GROUND))

    assert effect.does == "runs"


def test_wrappers_and_programs_load() -> None:
    assert len(programs()) > 200
    assert len(wrappers()) > 60


@pytest.mark.parametrize(
    ("arguments", "seen", "operands"),
    [
        ("-o x f", [("-o", "x")], ["f"]),
        ("-ox f", [("-o", "x")], ["f"]),
        ("-vox f", [("-v", None), ("-o", "x")], ["f"]),
        ("--output=x f", [("--output", "x")], ["f"]),
        ("--output x f", [("--output", "x")], ["f"]),
        ("--outp=x f", [("--output", "x")], ["f"]),
        ("--ou f", [("--output", "f")], []),
        ("f -o x", [("-o", "x")], ["f"]),
        ("-- -o x", [], ["-o", "x"]),
        ("--color f", [("--color", None)], ["f"]),
        ("--color=always f", [("--color", "always")], ["f"]),
        ("-c9 f", [("-c", "9")], ["f"]),
        ("-c f", [("-c", None)], ["f"]),
        ("- f", [], ["-", "f"]),
    ],
)
def test_options_are_read_in_every_spelling(
    arguments: str, seen: list[tuple[str, str | None]], operands: list[str]
) -> None:
    options = Options("-o:write --output:write --outline -v --color? -c?")
    line = take_apart([Field(word, word) for word in arguments.split()], options)

    assert [(each.option.name, each.value.value if each.value else None) for each in line.seen] == seen
    assert [field.value for field in line.operands] == operands


@pytest.mark.parametrize(
    "script",
    ["p", "1,5p", "s/a/b/", "s|a|b|gi", "/a/,/b/p", "$!d", "s/[a-z]*/x/g", "10,20{p;q}", "y/abc/xyz/", "1i\\\nfoo", "/x/a foo", "=",
    ":a;N;$!ba;s/\\n/ /g"],
)  # fmt: skip
def test_a_sed_script_that_only_changes_what_passes_is_harmless(script: str) -> None:
    assert about_sed.is_harmless(script)


@pytest.mark.parametrize(
    "script",
    [
        *("1e id", "e", "w out", "s/a/b/w out", "s/a/b/e", "s/a/b/ge", "r f", "W x", "R x", "s/a/b/;w x", "1{w x\n}", "/a/w x",
            "s/[x/]/a/w b/"),
        *("s/[^/]w x/y/e", "/[/]/w x", "/a[/]b/e id", "}e id", "s/a/b/\ne id", "a foo\ne id", "a\\\nfoo\ne id", ": x;e id", "b x;e",
            "1,2e", "\\xaxe id"),
    ],
)  # fmt: skip
def test_a_sed_script_that_writes_or_runs_is_not(script: str) -> None:
    assert not about_sed.is_harmless(script)


@pytest.mark.parametrize(
    "program",
    [
        *("{print $1}", "/a|b/ {print $2}", "NR>5", "{ if ($1 > 5) print $2 }", '{print "a|b"}', "$1 ~ /^[a-z]+$/ || $2==3",
            "!seen[$0]++"),
        *("END{print NR}", 'BEGIN{FS=":"} {s+=$1} END {print s/NR}', '{gsub(/x\\/y/,"z"); print}'),
    ],
)  # fmt: skip
def test_an_awk_program_that_only_prints_is_harmless(program: str) -> None:
    assert about_awk.is_harmless(program)


@pytest.mark.parametrize(
    "program",
    [
        *('BEGIN{system("id")}', '{print | "sh"}', '{print > "f"}', '{print $1,\n$2 > "f"}', 'BEGIN{"id"|getline x}',
            '{print ENVIRON["X"]}'),
        *('{printf("x") > "f"}', '{getline < "x"}', '{x = 1 / 2; print > "f" / 3}', '@include "x"', '{x=a /"/ | "sh"/ 2}',
            '/[/]/{print|"sh"}'),
        *('{print /x/ > "y"}', "BEGIN{@f()}", '{print "\\"" > "x"}', 'BEGIN{ARGV[1]="x"}'),
    ],
)  # fmt: skip
def test_an_awk_program_that_does_more_is_not(program: str) -> None:
    assert not about_awk.is_harmless(program)


@pytest.mark.parametrize(
    ("text", "does"),
    [
        *(("rm build/*", "edits"), ("rm -rf build/*", "edits"), ("rm *.pyc", "edits"), ("rm a* b?", "edits")),
        *(
            ("rm *", "runs"),
            ("rm *f", "runs"),
            ("rm ?f", "runs"),
            ("rm [-]rf", "runs"),
            ("rm -*", "runs"),
            ("rm *.pyc *", "runs"),
        ),
        *(("tee build/log", "edits"), ("tee build/*.log", "runs"), ("touch a/*", "runs")),
    ],
)
def test_a_wildcard_that_cannot_become_an_option_leaves_a_removal_what_it_is(text: str, does: str) -> None:
    assert [command.does for command in read_command(text, GROUND).commands] == [does]
