"""Judges commands by the backstay of a given tree. It is a program by itself: `python judge.py SRC`, JSON lines in, JSON lines out.

A line in is a list of cases: text, shell, mode, rules, whether the workspace is trusted, cwd and home. A line out is a list of what the
judge says of each: the decision and, when it allows, the programs and files that it names, for wildcards also what it found them to
stand for.
"""

import json
import sys
from typing import Any


def main() -> None:
    """Answer until there are no more lines."""
    source = sys.argv[1]
    sys.path.insert(0, source)
    import backstay

    assert str(backstay.__file__).startswith(source), backstay.__file__
    from msgspec.structs import replace

    from backstay.permissions import Call, judge_call, paths_to_resolve, spec_of
    from backstay.permissions.call_site import CallSite
    from backstay.permissions.shell import read_command
    from backstay.sandbox import resolve_paths
    from backstay.vocab.rules import Rule

    parsed: dict[tuple[str, ...], tuple[Rule, ...]] = {}

    def rules_of(texts: list[str]) -> tuple[Rule, ...]:
        key = tuple(texts)
        if key not in parsed:
            parsed[key] = tuple(
                Rule.parse("deny" if decision == "deny" else "allow", text)
                for decision, _, text in (each.partition(" ") for each in texts)
            )
        return parsed[key]

    def judge(case: dict[str, Any]) -> dict[str, object]:  # Any: as it came in
        rules = rules_of(case["rules"])
        call = Call(spec_of("Bash"), {"command": case["text"]})
        ground = CallSite(
            cwd=case["cwd"],
            home=case["home"],
            roots=(case["cwd"],),
            os="linux",
            shell=case["shell"],
            trusted=case["trusted"],
        )
        paths, globs = paths_to_resolve(call, ground, rules)
        ground = replace(ground, links=resolve_paths.follow_links(paths), globs=resolve_paths.match(globs))
        verdict = judge_call(call, ground, rules, mode=case["mode"])
        if verdict.decision != "allow":
            return {"decision": verdict.decision, "detail": verdict.detail if case.get("why") else ""}
        script = read_command(case["text"], ground)
        return {
            "decision": "allow",
            "detail": verdict.detail,
            "sure": [getattr(command, "proved", command.does != "runs") for command in script.commands],
            "does": [command.does for command in script.commands],
            "commands": [[list(layer.words) for layer in command.layers] for command in script.commands],
            "touches": [
                [access.kind, path, access.glob and path == access.path, access.deep]
                for command in script.commands
                for access in command.accesses
                for path in (access.path, *(ground.globs.get(access.path, ()) if access.glob else ()))
            ],
        }

    for line in sys.stdin:
        sys.stdout.write(json.dumps([judge(case) for case in json.loads(line)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
