"""The families of generated commands, how often each is chosen, and the rules that a case is judged by."""

import random
from collections.abc import Callable
from typing import Final

from tests.proof.generate import flags, scripts, shapes
from tests.proof.generate.mutate import mutated
from tests.proof.generate.quoting import oddly, quoted
from tests.proof.generate.words import a_text
from tests.proof.judging import Case


def quotes(rng: random.Random) -> str:
    """Write a command whose words are quoted in all ways."""
    words = [
        rng.choice(
            (
                "echo",
                "echo",
                "printf '%s\\n'",
                "grep -c",
                "test -n",
                "git log --grep",
                "basename",
                "cat",
                "tr -d",
                "cut -d",
                "expr x :",
                "ls",
            )
        )
    ]
    words += [quoted(rng, a_text(rng)) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.15:
        words.insert(rng.randrange(1, len(words) + 1), oddly(rng, a_text(rng)))
    return " ".join(words)


FAMILIES: Final[dict[str, tuple[int, Callable[[random.Random], str]]]] = {
    "flags": (22, flags.command),
    "lists": (16, shapes.listing),
    "quotes": (9, quotes),
    "doubles": (4, shapes.in_double),
    "substituted": (5, shapes.substituted),
    "heredocs": (10, shapes.heredoc),
    "expansions": (6, shapes.expansion),
    "dataflow": (6, shapes.dataflow),
    "sed": (5, scripts.sed),
    "awk": (4, scripts.awk),
    "jq": (2, scripts.jq),
    "find": (5, shapes.find),
    "tests": (2, shapes.test),
    "git": (5, shapes.git),
    "moves": (4, shapes.moving),
    "globs": (4, shapes.listing_of_globs),
    "folders": (2, shapes.after_cd),
    "redirects": (4, shapes.redirect),
    "runners": (3, shapes.runner),
    "versions": (2, shapes.versions),
}
_NAMES: Final = tuple(FAMILIES)
_WEIGHTS: Final = tuple(weight for weight, _ in FAMILIES.values())
_RULES: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (12, ()),
    (2, ("allow Bash(git log *)", "allow Bash(cat:*)", "allow Bash(echo *)")),
    (1, ("allow Bash(hit2 *)", "allow Bash(grep *)", "allow Bash(sed *)", "allow Bash(awk *)")),
    (1, ("allow Bash(ls*)", "allow Bash(wc -l)", "allow Bash(find * -name *)", "deny Read(denied/**)")),
    (2, ("allow Bash",)),
    (1, ("allow Bash(*)", "deny Bash(hit:*)", "deny Read(denied/**)")),
    (2, ("deny Read(denied/**)", "deny Bash(hit:*)", "deny Bash(rm *)")),
)
_MODES: Final = ("default", "default", "default", "plan", "acceptEdits", "acceptEdits", "acceptEdits")


def case_of(seed: int, number: int) -> Case:
    """Make the case of this number; it depends on nothing but the seed."""
    rng = random.Random(f"{seed}:{number}")
    family = rng.choices(_NAMES, _WEIGHTS)[0]
    text = FAMILIES[family][1](rng)
    if rng.random() < 0.45:
        text = mutated(rng, text)
    rules = rng.choices([rules for _, rules in _RULES], [weight for weight, _ in _RULES])[0]
    return Case(
        number=number,
        family=family,
        text=text,
        shell="dash" if rng.random() < 0.35 else "bash",
        mode=rng.choice(_MODES),
        rules=rules,
        trusted=rng.random() < 0.85,
    )
