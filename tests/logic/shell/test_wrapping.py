"""However a command is wrapped, its program is found or the reader says that it is not sure."""

import shlex

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.logic.shell import read_command
from tests.logic.shell.reader import GROUND, is_sure, programs

PLAIN: tuple[str, ...] = (
    "env {}", "env -i {}", "env - {}", "env FOO=1 {}", "env -u X {}", "sudo {}", "sudo -u root {}", "sudo -u root -- {}", "doas {}",
    "timeout 5 {}",
    "timeout -s KILL 5 {}", "time {}", "time -p {}", "nice {}", "nice -n 5 {}", "nice -n5 {}", "nohup {}", "stdbuf -oL {}",
    "command {}", "command -p {}",
    "builtin {}", "exec {}", "noglob {}", "setsid {}", "ionice -c3 {}", "chrt 5 {}", "flock /tmp/l {}", "chroot /x {}",
    "unshare -r {}", "nsenter -t 1 {}",
    "xargs {}", "xargs -n1 {}", "strace {}", "strace -f -o x {}", "setarch -R {}", "find . -exec {} \\;", "find . -ok {} \\;",
    "find . -execdir {} +", "fd -x {}",
    "busybox {}", "toybox {}", "npx {}", "uvx {}", "pnpm dlx {}", "pipx run {}", "mise exec -- {}", "direnv exec . {}",
    "docker exec c {}", "docker run --rm i {}",
    "podman exec -it c {}", "kubectl exec p -- {}", "/lib64/ld-linux-x86-64.so.2 {}", "watch {}", "ssh h {}", "parallel {} ::: a",
    "bwrap --unknown x {}",
    "pkexec {}", "gosu u {}", "su-exec u {}", "run0 {}", "chronic {}", "dumb-init {}", "tini -- {}", "numactl -N 0 {}", "eatmydata {}",
    "faketime 1 {}", "sg g {}", "conda run -n e {}", "foreman run {}", "ssh-agent {}", "systemd-inhibit --why=x {}",
    "systemd-run --scope {}", "gdb --args {}", "sem {}",
    "! {}", "coproc {}", "( {} )", "{{ {}; }}", "if {}; then :; fi", "while {}; do break; done", "for i in a; do {}; done",
    "case a in a) {};; esac",
    "f() {{ {}; }}; f", "true && {}", "false || {}", "true; {}", "true & {}", "true | {}", "true\n{}", "echo $({})", "echo `{}`",
    "cat <({})", "echo x > >({})",
    "echo ${{x:-$({})}}", "echo \"$({})\"", "x=$({})", "cat <<E\n$({})\nE", "cat <<< $({})", "[[ -n $({}) ]]", "echo $((1 + $({})))",
    "FOO=1 {}", "> out {}", "eval {}",
)  # fmt: skip
"""Forms that take a command as it is."""

QUOTED: tuple[str, ...] = (
    "sh -c {}", "bash -lc {}", "dash -c {}", "zsh -c {}", "bash --norc -c {}", "eval {}", "trap {} EXIT", "env -S {}", "su -c {}",
    "su root -c {}",
    "script -c {} f", "bash <<< {}", "echo {} | sh", "git -c alias.x='!'{} x", "npx -c {}", "flock l -c {}", "alias x={}",
    "split --filter={} f",
    "tar xf a --to-command={}", "rg --pre {} x", "sort --compress-program={} f", "xargs -I% sh -c {}", "git submodule foreach {}",
    "hyperfine {}", "watch {}", "zip -TT {} a b", "tar cf a --checkpoint-action=exec={} b", "GIT_PAGER={} git log", "compgen -C {}",
    "env GIT_PAGER={} git log", "export PAGER={}", "sg g -c {}",
)  # fmt: skip
"""Forms that take a command as one word."""

MEANT_FOR_THE_SHELL = ("!", "coproc", "{", "FOO=1")
"""Behind a program these are no words of the shell any more: `env ! victim` starts a program called `!`."""


@given(st.lists(st.sampled_from(PLAIN + QUOTED), min_size=1, max_size=4))
def test_a_wrapped_program_is_found_or_something_is_said(forms: list[str]) -> None:
    text = "victim one"
    for form in forms:
        assume(form != "env -S {}" or not set(text) & set(";&|()<>{}`\n$"))  # env is no shell: nothing of it would run
        assume(form not in ("ssh h {}", "parallel {} ::: a") or "'" not in text)  # they lose the quotes
        assume(
            not form.startswith("find") or not set(text) & set(";&|\n")
        )  # what ends a command ends `-exec` too early
        assume("({}" not in form or not text.startswith("("))  # two of them begin arithmetic
        assume("`" not in form or "`" not in text)  # the inner one closes the outer one
        text = form.format(shlex.quote(text) if form in QUOTED else text)
    script = read_command(text, GROUND)
    found = {name.partition("=")[0] if name.startswith("GIT_PAGER=") else name for name in programs(script)}

    assert found & {"victim", "GIT_PAGER", *MEANT_FOR_THE_SHELL} or not is_sure(script)


@pytest.mark.parametrize("form", PLAIN + QUOTED)
def test_one_wrapper_does_not_hide_a_program(form: str) -> None:
    inner = "victim one"
    script = read_command(form.format(shlex.quote(inner) if form in QUOTED else inner), GROUND)

    assert "victim" in programs(script)


@pytest.mark.parametrize(
    "form",
    [
        "timeout 5 {}",
        "time {}",
        "nice {}",
        "nohup {}",
        "stdbuf -oL {}",
        "command {}",
        "builtin {}",
        "noglob {}",
        "xargs {}",
    ],
)
def test_a_rule_for_the_inner_command_is_enough_for_a_plain_wrapper(form: str) -> None:
    [command] = read_command(form.format("victim one"), GROUND).commands

    assert [layer.transparent for layer in command.layers] == [True, False]
    assert command.layers[-1].words == ("victim", "one")


@pytest.mark.parametrize(
    "form",
    [
        "sudo {}",
        "env FOO=1 {}",
        "watch {}",
        "setsid {}",
        "ionice {}",
        "flock l {}",
        "xargs -n1 {}",
        "./nohup {}",
        "env -i {}",
    ],
)
def test_a_rule_for_the_inner_command_is_not_enough_for_others(form: str) -> None:
    commands = read_command(form.format("victim one"), GROUND).commands

    assert not any(layer.transparent for command in commands for layer in command.layers[:-1])
    assert all(command.does == "runs" for command in commands)
