"""What looks harmless and is not, and the twins that must stay free."""

import pytest

from holdfast.logic.shell import read_command
from tests.logic.shell.reader import GROUND, is_free, programs

RUNS = "b[$(touch pwn)]"

ATTACKS: tuple[str, ...] = (
    *("""awk 'BEGIN{print /"/; system("id"); print /"/}'""", """awk 'function f(){return /"/; system("id"); /"/}'"""),
    *("""awk 'END /"/{system("id")}/"/'""", """awk '{x = /"/; system("id"); y = /"/}'""", """awk '{(x) /"/; system("id"); /"/}'"""),
    *("""awk '/[\\]/"]/{system("id")}#"'""", """awk '/[[:alpha:]/"]/{system("id")}#"'"""),
    *(f"x='{RUNS}'; a[x]=1", f"x='{RUNS}'; a=([x]=1)", f"a=('{RUNS}'); a[a]=1", "while read x; do a[x]=1; done < f"),
    *(f"read <<< '{RUNS}'; echo $((REPLY))", f"mapfile <<< '{RUNS}'; echo $((MAPFILE))", f"x='{RUNS}'; let x++"),
    *(f"[[ '{RUNS}' =~ .* ]]; echo $((BASH_REMATCH))", f": '{RUNS}'; echo $((_))", f": '{RUNS}'; echo $(($_))"),
    *("cd x; echo $((PWD))", "getopts a x; echo $((OPTARG))", "a[$x]=1", "a=([$x]=1)"),
    "ls >&\u00b2",
    *(f"for ((i=0;i<x;i++)); do x='{RUNS}'; done", f"while [[ x -lt 3 ]]; do x='{RUNS}'; done"),
    *(f"while true; do echo $((x)); x='{RUNS}'; done", f"x=0; y=0; while :; do echo $((y)); y=$x; x='{RUNS}'; done"),
    *(f"i=0; while [ $i -lt 3 ]; do echo $((i)); i='{RUNS}'; continue; i=0; done", f"trap 'echo $((x))' EXIT; x='{RUNS}'"),
    *("while :; do cat f; cd /etc; done", "for i in 1 2; do ls; export PATH=.; done"),
    *("x=$API_TOKEN; echo $x", "for v in $API_KEY; do echo $v; done", "x=a$API_TOKEN; y=$x; echo $y", "cat <<< $API_KEY"),
    *("vim -V", "npx -V", "mvn -V", "mvn --version", "nvim -V", "gradle --version", "jest --version", "R -V", "python3 -v"),
    *("jobs -x id", "umask 0", "tar -tf h:x", "tar -xf x", "unzip x", "tar -tf x --to-command=id", "ps -eo env", "ps eo pid"),
    *("git cat-file --batch", "last -f /etc/shadow", "findmnt -F /etc/shadow", "who /etc/shadow", "lspci -i /etc/shadow"),
    *("sed -i s/a/b/ *", "xzcat --files=list"),
    *(f"f() {{ echo $((x)); }}; x='{RUNS}'; f", f"f() {{ echo $((x)); }}; x='{RUNS}' f", "f() { echo $1; }; f $API_TOKEN"),
    *(f"f() {{ local x=1; }}; x='{RUNS}'; f; echo $((x))", "f() { cd /etc; }; f; cat passwd", "f() { f; }; f", "f() { rm x; }; f"),
    *("f() { ls; }; PATH=. f", "f() { ls; }; env f", "ls() { :; }; unset -f ls; ls", "f() { $1; }; f id", "f() { sh; }; echo id | f"),
    *("if a; then f() { ls; }; fi; f", "f() { g() { rm x; }; }; f; g"),
    *("{ cat; } <<< $API_KEY", "a=($API_KEY); echo ${a[0]}"),
)  # fmt: skip

TWINS: tuple[str, ...] = (
    *("awk '/x/{print $1}' f", "awk '{print $1/2}' f", "awk -F/ '{print $2}' f", "awk '{s+=$1} END {print s/NR}' f"),
    *("awk '/[[:digit:]]+/ {print $1}' f", "awk '$1 ~ /a/ && $2 > 3' f", "awk '{print a[1]/2}' f"),
    *("i=1; a[i]=1", "a[0]=1", "a=([0]=x [1]=y)", "a=(x y)", "i=3; echo $((i+1))", "[[ $x =~ ^a ]] && echo y"),
    *("ps -eo pid,cmd", "tar -tf x", "tar tzf x.tgz", "unzip -l x", "umask", "ulimit -a", "cal", "jobs", "ls | tee /dev/null"),
    *("ls | tee /dev/stderr", "last -n 5", "who", "lspci", "zcat x.gz", "git log -L1,5:a.py", "git stash show -p"),
    *("greet() { echo hi; }; greet", "f() { local i=1; echo $((i+1)); }; f; f", "f() { cat a; }; f | head"),
    *("ls 2>&1", "ls >&2", "python3 -V", "java -version", "vim --version", "git --help", "python3 --help", "node -v"),
    *("i=0; while [ $i -lt 3 ]; do ls src; i=$((i+1)); done", "while read l; do n=$((n+1)); done < f; echo $n"),
    *("x=$HOME_PAGE; echo $x", "for v in a b; do cat $v.txt; done", "for d in a b; do (cd $d; ls); done; cat f"),
)  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS)
def test_what_hides_a_danger_is_never_free(text: str) -> None:
    assert not is_free(text)


@pytest.mark.parametrize("text", TWINS)
def test_its_harmless_twin_stays_free(text: str) -> None:
    assert is_free(text)


def test_doubling_a_value_does_not_hang_the_reader() -> None:
    text = "a=xxxxxxxxxx; " + 'a="$a$a"; ' * 26 + 'echo "$a"'

    assert [command.layers[0].words for command in read_command(text, GROUND).commands if command.layers] == [
        ("echo", None)
    ]


def _accesses(text: str) -> set[tuple[str, str, bool]]:
    commands = read_command(text, GROUND).commands
    return {(each.kind, each.path, each.deep) for command in commands for each in command.accesses}


@pytest.mark.parametrize(
    "text",
    ["zcat -rf .", "grep -d recurse x .", "grep -drecurse x .", "grep --directories=recurse x .", "grep --rec x .", "grep -inr x .",
    "rg --iglob .env x .", "rg -n. x .", "rg -ig.env x .", "rg -iuu x .", "git grep --no-index x .", "git diff --no-index empty .",
    "git log -p -- '.e*' .", "diff -N empty .", "diff empty .", "cp -a . /tmp/x"],
)  # fmt: skip
def test_reading_a_whole_folder_is_told_from_the_options(text: str) -> None:
    assert ("read", "/repo/.", True) in _accesses(text)


@pytest.mark.parametrize("text", ["grep x .", "cat .", "grep -d skip x .", "cp . /tmp/x"])
def test_reading_a_single_file_is_not_deep(text: str) -> None:
    assert ("read", "/repo/.", False) in _accesses(text)


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        *(("diff .env build", "read", "/repo/build/.env"), ("diff build .env", "read", "/repo/build/.env")),
        *(("git log -L1,5:.env", "read", "/repo/.env"), ("git stash show -p -- .env", "read", "/repo/.env")),
        *(("xzcat --files=.env", "read", "/repo/.env"), ("mkfs.ext4 /dev/sda", "write", "/dev/sda")),
        *(("wipefs -a /dev/sda", "write", "/dev/sda"), ("blkdiscard /dev/sda", "write", "/dev/sda")),
        *(("rsync -a --delete a/ b", "remove", "/repo/b"), ("rsync -a --delete-after a/ b", "remove", "/repo/b")),
        *(("tar cf a.tar --remove-files b", "remove", "/repo/b"), ("ls >&\u00b2", "write", "/repo/\u00b2")),
        *(("for f in a b; do touch $f.txt; done", "write", "/repo/b.txt"),),
    ],
)
def test_a_file_that_an_option_names_is_told(text: str, kind: str, path: str) -> None:
    assert (kind, path) in {(each, where) for each, where, _ in _accesses(text)}


@pytest.mark.parametrize("text", ["sed -i s/a/b/g src/*.py", "for f in a b; do touch $f.txt; done"])
def test_an_edit_of_known_files_is_no_more_than_that(text: str) -> None:
    script = read_command(text, GROUND)

    assert not script.problem
    assert {command.does for command in script.commands} == {"edits"}


@pytest.mark.parametrize(
    "text",
    ["git bisect run rm x", "zip -TT 'rm x' a b", "tar cf a b --checkpoint-action=exec='rm x'", "sed '1e rm x' f",
    "GIT_PAGER='rm x' git log", "PAGER='rm x'; git log", "less '+!rm x' f", "vim -c '!rm x'", "compgen -C 'rm x'",
    "env GIT_SSH_COMMAND='rm x' git fetch", "gdb --args rm x", "sg g -c 'rm x'"],
)  # fmt: skip
def test_a_program_in_an_argument_is_found(text: str) -> None:
    assert "rm" in programs(read_command(text, GROUND))


@pytest.mark.parametrize("text", ["make -f- <<< 'all:; rm x'", "make --eval='all:; rm x'", "make -f /dev/stdin"])
def test_rules_that_are_in_no_file_may_hide_anything(text: str) -> None:
    assert any(command.opaque for command in read_command(text, GROUND).commands)


def test_a_value_of_very_many_words_is_not_spelled_out() -> None:
    text = "a='" + "x " * 1000 + "'; b='" + "x " * 100 + "'; echo " + "$a " * 100 + "$b " * 100
    words = read_command(text, GROUND).commands[-1].layers[-1].words

    assert None in words
    assert len(words) < 3000
