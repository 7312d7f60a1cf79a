"""Settings files limit hooks: who may have some, where they may post to, which variables they may use."""

import pytest

from backstay.hooks.limits import apply_limits, covers, read_limits
from backstay.hooks.spec import CommandHook, HookSource, HttpHook, make_spec


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("https://hooks.example.com/*", "https://hooks.example.com/a/b?c=d", True),
        ("https://hooks.example.com/*", "https://hooks.example.com.evil.net/a", False),
        ("https://hooks.example.com/*", "https://hooks.example.com@evil.net/a", False),
        ("https://hooks.example.com/*", "http://hooks.example.com/a", False),
        ("https://hooks.example.com/*", "https://hooks.example.com:8443/a", False),
        ("https://*.example.com/*", "https://a.example.com/x", True),
        ("https://*.example.com/*", "https://evil.net/x.example.com/", False),
        ("https://*.example.com/*", "https://evilexample.com/", False),
        ("https://hooks*", "https://hooks.evil.net/", False),
        ("http://localhost:8080/hook", "http://localhost:8080/hook", True),
        ("http://localhost:8080/hook", "http://localhost:8080/hook2", False),
        ("http://h:x/*", "http://h/a", False),
        ("*", "http://anything/", True),
    ],
)
def test_a_list_of_addresses_is_read_part_by_part(pattern: str, url: str, allowed: bool) -> None:
    assert covers(pattern, url) is allowed


@pytest.mark.parametrize(
    ("limiter", "owner", "runs"),
    [
        ("person", "person", False),
        ("person", "project", False),
        ("project", "project", False),
        ("project", "person", True),
        ("local", "flag", True),
        ("person", "managed", True),
        ("managed", "managed", False),
    ],
)
def test_limits_of_a_project_do_not_reach_a_persons_hooks(limiter: HookSource, owner: HookSource, runs: bool) -> None:
    spec = make_spec("Stop", HttpHook(url="https://a/x"), source=owner)

    kept, notes = apply_limits([spec], [read_limits({"allowedHttpHookUrls": ["https://b/*"]}, source=limiter)])

    assert bool(kept) is runs
    assert any("allowedHttpHookUrls" in note for note in notes) is not runs


def test_headers_use_only_the_variables_that_are_allowed() -> None:
    spec = make_spec("Stop", HttpHook(url="https://a/x", env_names=("A", "B")))

    kept, _ = apply_limits([spec], [read_limits({"httpHookAllowedEnvVars": ["B", "C"]}, source="person")])

    assert kept[0].handler == HttpHook(url="https://a/x", env_names=("B",))


def test_only_managed_hooks_may_be_wanted_by_whoever_manages() -> None:
    mine = make_spec("Stop", CommandHook(command="a"), source="person")
    managed = make_spec("Stop", CommandHook(command="b"), source="managed")
    wish = {"allowManagedHooksOnly": True}

    assert apply_limits([mine, managed], [read_limits(wish, source="managed")]).specs == (managed,)
    assert apply_limits([mine, managed], [read_limits(wish, source="project")]).specs == (mine, managed)


def test_limits_that_cannot_be_read_allow_nothing() -> None:
    limits = read_limits({"allowedHttpHookUrls": "https://a/*"}, source="person")

    assert limits.urls == ()
    assert "allows nothing" in limits.warnings[0]
