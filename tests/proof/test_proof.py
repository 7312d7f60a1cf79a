"""What is allowed unasked does nothing that the verdict does not name: a share of the long proof (`python -m tests.proof`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import lacking_for_traced_sandbox
from tests.proof.campaign import Campaign, Violation
from tests.proof.check import Check, Said, found_by
from tests.proof.faults import Fault, find, planted, read_faults
from tests.proof.generate import case_of
from tests.proof.judging import Case, Judge

pytestmark = pytest.mark.skipif(bool(lacking_for_traced_sandbox()), reason=lacking_for_traced_sandbox() or "-")

JUDGED = 20_000
RUN = 500
QUICK = ("a dollar before a parenthesis is a dollar", "a comment goes on to the end of the text")
"""Faults that are found soon; `python -m tests.proof --faults` looks for all of them."""
FOUND = (
    # a line inside of $(cat ...) that only begins with the delimiter ends the lines for bash
    'echo "$(cat <<\'EOF\'\nEOFx ) "; touch made; echo "\nEOF\n)"',
    'git log --grep "$(cat <<\'A\'\ntext\nA\\) "; hit; "\nA\n)"',
    # folders that the words of echo list
    "echo ~/.ssh/*",
    "printf '%s\\n' ~/*",
    # a cd that a || skips
    "true || cd sub && cat ../outside/o.txt",
    "pwd || cd src && cat ../../outside/o.txt",
)
FOUND_IN_DASH = (
    # a job in the background, and another command with a redirect
    "echo x &>/dev/null gzip -v build/out.o",
    "cd src && ls &>/dev/null touch made",
)
"""Commands that were once allowed with no rule, and did what was not named."""


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    """A campaign with a seed that is always the same; `make torture` draws others."""
    with Campaign(1) as campaign:
        yield campaign


def test_allowed_commands_do_nothing_that_the_verdict_does_not_name(campaign: Campaign) -> None:
    shown = list[Violation]()
    campaign.go(JUDGED, RUN, shown.append)
    print("\n".join([f"seed {campaign.seed}", *campaign.counts.lines()]))
    assert not shown, f"python -m tests.proof --seed {campaign.seed} --only NUMBER\n" + "\n".join(map(str, shown))
    assert campaign.counts.run >= RUN * 0.9


def test_what_a_command_does_besides_is_seen(campaign: Campaign) -> None:
    text = (
        "hit; cat .env README.md > made; rm src/a.py; exec 3<>/dev/tcp/127.0.0.1/9; (cd sub; ../hit) | sh -c 'mkdir x'"
    )
    case = Case(number=0, family="", text=text, shell="bash")
    check = Check(
        Said("allow", touches=(("read", f"{campaign.root}/work/README.md", False, False),)), campaign.ground(case)
    )
    _, events = campaign.sandbox.run("bash", text)
    seen = found_by(check, events)
    campaign.workspace.put_back()
    for wrong in (
        "executes ROOT/bin/hit",
        "executes /usr/bin/cat",
        "reads ROOT/work/.env",
        "changes ROOT/work/made",
        "changes ROOT/work/src/a.py",
        "connects: connect(",
        "executes ROOT/work/hit",
        "changes ROOT/work/x",
    ):
        assert any(each.startswith(wrong) or wrong in each.replace("/sub/..", "") for each in seen), (wrong, seen)
    assert "reads ROOT/work/README.md" not in seen


def test_the_workspace_is_put_back(campaign: Campaign) -> None:
    campaign.sandbox.run(
        "bash", "rm -rf src .git ../home/.ssh; echo x > new; chmod 700 README.md; mv tests old; ln -s / link"
    )
    assert campaign.workspace.put_back()
    assert not campaign.workspace.put_back()
    assert (campaign.root / "home/.ssh/id_rsa").read_text(encoding="utf-8") == "secret\n"


def test_a_case_depends_on_its_seed_and_number_alone() -> None:
    assert [case_of(7, number) for number in range(50)] == [case_of(7, number) for number in range(50)]
    assert case_of(7, 1) != case_of(8, 1)


@pytest.mark.parametrize("text", [*FOUND, *FOUND_IN_DASH])
@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
def test_what_was_found_asks(text: str, mode: str, tmp_path: Path) -> None:
    shell = "dash" if text in FOUND_IN_DASH else "bash"
    with Judge(tmp_path) as judge:
        said = judge.judge([Case(number=0, family="", text=text, shell=shell, mode=mode)])[0]
    assert said.decision != "allow"


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.name)
def test_every_fault_has_its_place(fault: Fault) -> None:
    with planted(fault) as source:
        assert (source / "backstay").is_dir()


@pytest.mark.parametrize("fault", [each for each in read_faults() if each.name in QUICK], ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    assert find(fault, 1, most=30_000, aimed=True).by is not None
