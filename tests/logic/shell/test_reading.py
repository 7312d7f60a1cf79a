"""What the reader says about a command: layers, files, folders, variables."""

import pytest

from holdfast.logic.acts import Access, Command, Ground, Layer
from holdfast.logic.shell import read_command
from holdfast.logic.shell.grammar import ScriptReader
from holdfast.logic.shell.witness import disagreement
from holdfast.logic.shell.words import Unreadable
from tests.logic.shell.reader import GROUND


def touched(text: str, ground: Ground = GROUND) -> list[tuple[str, str]]:
    return [
        (access.kind, access.path) for command in read_command(text, ground).commands for access in command.accesses
    ]


def test_a_command_is_told_with_its_layers_files_and_variables() -> None:
    [command] = read_command("FOO=1 timeout 5 sed -i 's/a/b/' src/x.py 2>>log", GROUND).commands

    assert command == Command(
        layers=(
            Layer(
                words=("timeout", "5", "sed", "-i", "s/a/b/", "src/x.py"),
                text="timeout 5 sed -i 's/a/b/' src/x.py",
                transparent=True,
            ),
            Layer(words=("sed", "-i", "s/a/b/", "src/x.py"), text="sed -i 's/a/b/' src/x.py"),
        ),
        does="edits",
        accesses=(
            Access(kind="read", path="/repo/src/x.py", written="src/x.py"),
            Access(kind="write", path="/repo/src/x.py", written="src/x.py"),
            Access(kind="write", path="/repo/log", written="log", redirect=True),
        ),
        steers=("FOO",),
    )


def test_each_command_inside_of_a_shells_text_has_the_shell_around_it() -> None:
    commands = read_command("bash -c 'ls; rm -rf build'", GROUND).commands

    assert [[layer.text for layer in command.layers] for command in commands] == [
        ["bash -c 'ls; rm -rf build'", "ls"],
        ["bash -c 'ls; rm -rf build'", "rm -rf build"],
    ]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("cd sub && cat x", [("list", "/repo/sub"), ("read", "/repo/sub/x")]),
        ("cd sub; cat x", [("list", "/repo/sub"), ("read", "/repo/sub/x"), ("read", "/repo/x")]),
        ("cd sub || cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("(cd sub); cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("cd sub | cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("cd sub & cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("! cd sub && cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("nohup cd sub && cat x", [("list", "/repo/sub"), ("read", "/repo/x")]),
        ("command cd sub && cat x", [("list", "/repo/sub"), ("read", "/repo/sub/x")]),
        ("cd $X && cat x", [("list", ""), ("read", "")]),
        ("cd a/../b && cat x", [("list", "/repo/a/../b"), ("read", "/repo/b/x")]),
        ("pushd sub && cat x && popd && cat y", [("list", "/repo/sub"), ("read", "/repo/sub/x"), ("read", "/repo/y")]),
        ("cd && cat x", [("list", "/home/u"), ("read", "/home/u/x")]),
        ("cd - && cat x", [("read", "")]),
        ("eval 'cd sub' && cat x", [("list", "/repo/sub"), ("read", "/repo/sub/x")]),
        ("f() { cd /etc; }; f; cat x", [("list", "/etc"), ("list", "/etc"), ("read", "/etc/x"), ("read", "/repo/x")]),
        ("for i in 1 2; do cat x; cd ..; done", [("read", "/repo/x"), ("list", "/repo/.."), ("read", "/x"), ("read", "/repo/x"),
            ("list", "/.."), ("read", ""), ("list", "")]),
        ("cat ~/x ~+/y ~u/z ~root/w ~-/v", [("read", "/home/u/x"), ("read", "/repo/y"), ("read", "/home/u/z"), ("read", ""), ("read",
            "")]),
        ("cat $HOME/x ${HOME}/y \"$PWD/z\" '$HOME/w'", [("read", "/home/u/x"), ("read", "/home/u/y"), ("read", "/repo/z"), ("read",
            "/repo/$HOME/w")]),
        ("HOME=/tmp; cat ~/x", [("read", "/tmp/x")]),
        ("x='a b'; cat $x \"$x\"", [("read", "/repo/a"), ("read", "/repo/b"), ("read", "/repo/a b")]),
        ("false && x=b; cat $x", [("read", "")]),
        ("for f in a b; do cat $f; done", [("read", "/repo/a"), ("read", "/repo/b")]),
        ("cat a{b,c}", [("read", "/repo/ab"), ("read", "/repo/ac")]),
        ("cat < x", [("read", "/repo/x")]),
        ("echo $(<x)", [("read", "/repo/x")]),
        ("while read l; do :; done < x", [("read", "/repo/x")]),
        ("cat <> x", [("read", "/repo/x"), ("write", "/repo/x")]),
        ("ls 2>&1 >&- <&3", [("list", "/repo/.")]),
        ("cp a b", [("read", "/repo/a"), ("write", "/repo/b"), ("write", "/repo/b/a")]),
        ("mv a ~", [("read", "/repo/a"), ("remove", "/repo/a"), ("write", "/home/u"), ("write", "/home/u/a")]),
        ("cp -t d a", [("read", "/repo/a"), ("write", "/repo/d"), ("write", "/repo/d/a")]),
        ("tar czf - x", [("read", "/repo/x")]),
        ("tar cfz out.tgz x", [("write", "/repo/out.tgz"), ("read", "/repo/x")]),
        ("dd if=a of=b", [("read", "/repo/a"), ("write", "/repo/b")]),
        ("curl -o out -d @in file:///etc/x", [("write", "/repo/out"), ("read", "/repo/in"), ("read", "/etc/x")]),
        ("git show :x", [("read", "/repo/:x"), ("read", "/repo/x")]),
        ("unknown a/b c.d e -f --in=g/h", [("read", "/repo/a/b"), ("read", "/repo/c.d"), ("read", "/repo/g/h")]),
        ("xxd -ps x", [("read", "/repo/x")]),
        ("head -n5 x", [("read", "/repo/x")]),
        ("grep -e a -f p x", [("read", "/repo/p"), ("read", "/repo/x")]),
        ("grep -r a", [("read", "/repo/.")]),
        ("diff <(sort a) b", [("read", "/repo/a"), ("read", "/repo/b")]),
        ("python3 -c \"open('.env')\"", [("read", "/repo/.env")]),
        ("find a b -name x -delete", [("remove", "/repo/a"), ("remove", "/repo/b")]),
        ("sudo rm -rf /", [("remove", "/")]),
        ("./rm -rf /", [("remove", "/")]),
    ],
)  # fmt: skip
def test_the_files_that_it_touches_are_told(text: str, files: list[tuple[str, str]]) -> None:
    assert touched(text) == files


def test_a_pattern_is_told_as_one_and_quoted_wildcards_are_not() -> None:
    [command] = read_command("cat a*'*' 'b*'", GROUND).commands

    assert [(access.path, access.glob) for access in command.accesses] == [("/repo/a*[*]", True), ("/repo/b*", False)]


@pytest.mark.parametrize(
    ("text", "steers"),
    [
        ("NODE_ENV=test ls", ()),
        ("LC_ALL=C TZ=UTC ls", ()),
        ("FOO=1 ls", ("FOO",)),
        ("env FOO=1 ls", ("FOO",)),
        ("export FOO=1; ls", ("FOO",)),
        ("declare -x FOO=1; ls", ("FOO",)),
        ("FOO=1; export FOO; ls", ("FOO",)),
        ("export FOO; FOO=1; ls", ("FOO",)),
        ("foo=1; ls", ()),
        ("PATH=.; ls", ("PATH",)),
        ("(PATH=.); ls", ()),
        ("f() { PATH=.; }; f; ls", ("PATH",)),
        ("GIT_PAGER=x; ls", ("GIT_PAGER",)),
        ("read PATH <<< .; ls", ("PATH",)),
        ("printf -v PATH .; ls", ("PATH",)),
        ("for PATH in .; do ls; done", ("PATH",)),
        (": ${PATH:=.}; ls", ("PATH",)),
        ("((PATH=1)); ls", ("PATH",)),
        ("IFS=, read x; ls", ()),
        ("bash -c 'export PATH=.'; ls", ()),
        ("PATH=. bash -c ls", ("PATH",)),
    ],
)
def test_variables_that_may_change_a_program_are_told(text: str, steers: tuple[str, ...]) -> None:
    assert read_command(text, GROUND).commands[-1].steers == steers


@pytest.mark.parametrize(
    "text",
    ["ls\u200b", "ls \u202ex", "ls\u2028x", "ls\xa0x", "ls\rx", "ls\x1b[2Kx", "ls\0x", "ls\ufeffx", "\ud800",
    "ls" + " " * 200 + "; x", "ls" + "\n" * 60 + "x"],
)  # fmt: skip
def test_hidden_text_is_a_problem(text: str) -> None:
    assert read_command(text, GROUND).problem


@pytest.mark.parametrize(
    "text", ["ls é.txt", "echo 日本", "git commit -m 'naïve'", "ls\n\nls", "if a; then\n" + " " * 40 + "b\nfi"]
)
def test_plain_text_of_any_language_is_none(text: str) -> None:
    assert not read_command(text, GROUND).problem


@pytest.mark.parametrize("text", ["echo 'x", 'echo "x', "echo $(x", "echo ${x", "echo `x", "if x", "x )", "x ;; y", "cat <<E\nx",
    "x >", "x &&", "{ x", "f(", "a[1 + 2]=3", "echo ${(e)x}", "ls *(N)"])  # fmt: skip
def test_what_cannot_be_read_is_a_problem(text: str) -> None:
    assert read_command(text, GROUND).problem


def test_commands_are_found_in_a_text_that_cannot_be_read() -> None:
    script = read_command("ls ;; rm -rf 'build", GROUND)

    assert [command.layers[-1].words[0] for command in script.commands] == ["ls", "rm"]
    assert all(command.opaque for command in script.commands)


def test_commands_are_found_however_long_the_chain_is() -> None:
    script = read_command(" && ".join(["true"] * 3_000) + " && curl x", GROUND)

    assert "longer" in script.problem
    assert script.commands[-1].layers[-1].words == ("curl", "x")


@pytest.mark.parametrize(
    "text", ["=ls x", "ls *(e:id:)", "echo x >! f", "echo ${(e)x}", "cat =(id)", "repeat 3 ls", "ls &!"]
)
def test_what_zsh_reads_in_its_own_way_is_a_problem(text: str) -> None:
    assert read_command(text, Ground(cwd="/repo", home="/home/u", shell="zsh")).problem
    assert not read_command("ls -la && git status", Ground(cwd="/repo", home="/home/u", shell="zsh")).problem


def test_a_shell_whose_grammar_is_not_known_is_a_problem() -> None:
    for text in ("ls; and pwd", "echo (pwd)", "not ls", "command ls", "echo $x", "ls *"):
        assert read_command(text, Ground(cwd="/repo", home="/home/u", shell="fish")).problem
    assert read_command("ls", Ground(cwd="/repo", home="/home/u", shell="pwsh")).problem
    assert read_command("echo {a,b}", Ground(cwd="/repo", home="/home/u", shell="/bin/sh")).problem


def test_a_program_with_plain_words_reads_the_same_in_every_shell_of_unix() -> None:
    assert not read_command("git log --oneline -5", Ground(cwd="/repo", home="/home/u", shell="fish")).problem


def test_a_path_of_another_machine_runs_on_windows() -> None:
    windows = Ground(cwd="C:/repo", home="C:/u", os="windows")

    assert read_command(r"ls '\\evil\share'", windows).commands[0].does == "runs"
    assert read_command("ls //evil/share", windows).commands[0].does == "runs"
    assert touched("cat C:/x y", windows) == [("read", "C:/x"), ("read", "C:/repo/y")]


def test_git_is_not_harmless_in_a_workspace_that_nobody_trusts() -> None:
    assert read_command("git status", Ground(cwd="/repo", home="/home/u", trusted=False)).commands[0].does == "runs"


def test_a_network_program_is_told() -> None:
    assert [
        command.network for command in read_command("curl x; ls; cat < /dev/tcp/h/80; ssh h ls", GROUND).commands
    ] == [True, False, True, True]


def test_a_program_under_another_os_is_known_by_any_case() -> None:
    darwin = Ground(cwd="/repo", home="/home/u", os="darwin")

    assert read_command("SUDO RM x", darwin).commands[0].layers[-1].words == ("RM", "x")


@pytest.mark.parametrize(
    "text", ["ls", "ls -la", "git log --oneline -5", "in a b", "./run a=b c^d", "a\tb", "time", "for", "ls ", "f ()"]
)
def test_plain_words_are_read_the_short_way_as_they_are_the_long_way(text: str) -> None:
    def read(whole: bool) -> object:
        reader = ScriptReader(text)
        try:
            return reader.whole() if whole else reader.script(frozenset())
        except Unreadable as problem:
            return str(problem)

    assert read(whole=True) == read(whole=False)


def test_a_command_that_only_the_second_reader_sees_makes_a_text_doubtful() -> None:
    assert disagreement("ls $(touch a)", {"ls"}) == "a second reader sees the command 'touch'"
    assert disagreement("ls $(touch a)", {"ls", "touch"}) == ""
    assert disagreement("ls (", {"ls"}) == "a second reader cannot read it"
    assert read_command("! ! ls", GROUND).problem == "a second reader sees the command '!'"
