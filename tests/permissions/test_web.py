"""Addresses: which host a rule is about, and which hosts nobody is let near by accident."""

import pytest

from tests.permissions.desk import weighed

EXAMPLE = ["WebFetch(domain:example.com)"]
BELOW = ["WebFetch(domain:*.example.com)"]

ADDRESSES = [
    ("https://example.com/a", EXAMPLE, "allow"),
    ("http://example.com", EXAMPLE, "allow"),
    ("https://EXAMPLE.com/a?b#c", EXAMPLE, "allow"),
    ("https://example.com./a", EXAMPLE, "allow"),
    ("https://example.com:8443/a", EXAMPLE, "allow"),
    ("HTTPS://example.com/", EXAMPLE, "allow"),
    ("https://example.com/x@y", EXAMPLE, "allow"),
    ("https://example.com/?next=https://other.test/", EXAMPLE, "allow"),
    ("https://www.example.com/", EXAMPLE, "ask"),
    ("https://example.com.other.test/", EXAMPLE, "ask"),
    ("https://notexample.com/", EXAMPLE, "ask"),
    ("https://example.community/", EXAMPLE, "ask"),
    ("https://other.test/example.com", EXAMPLE, "ask"),
    ("https://other.test#example.com", EXAMPLE, "ask"),
    ("https://example.com@other.test/", EXAMPLE, "ask"),
    ("https://example.com:x@other.test/", EXAMPLE, "ask"),
    ("https://me:you@example.com/", EXAMPLE, "ask"),
    ("https://other.test\\@example.com/", EXAMPLE, "ask"),
    ("https://example.com\\.other.test/", EXAMPLE, "ask"),
    ("https:\\\\other.test/", EXAMPLE, "ask"),
    ("https://exam\tple.com/", EXAMPLE, "ask"),
    ("https://example.com\n.other.test/", EXAMPLE, "ask"),
    (" https://example.com/", EXAMPLE, "ask"),
    ("https://example\uff0ecom/", EXAMPLE, "ask"),
    ("https://ex\u0430mple.com/", EXAMPLE, "ask"),
    ("https://xn--exmple-4uf.com/", EXAMPLE, "ask"),
    ("https://example%2ecom/", EXAMPLE, "ask"),
    ("https://example.com..", EXAMPLE, "ask"),
    ("https://example.com:99999999/", EXAMPLE, "ask"),
    ("https:///example.com/", EXAMPLE, "ask"),
    ("//example.com/", EXAMPLE, "ask"),
    ("example.com", EXAMPLE, "ask"),
    ("https://a.example.com/", BELOW, "allow"),
    ("https://a.b.example.com/", BELOW, "allow"),
    ("https://example.com/", BELOW, "ask"),
    ("https://badexample.com/", BELOW, "ask"),
    ("https://a.example.com.other.test/", BELOW, "ask"),
    ("https://docs.example.org/", ["WebFetch(domain:docs.example.*)"], "allow"),
    ("https://docs.example.co.uk/", ["WebFetch(domain:docs.example.*)"], "ask"),
    ("https://other.test/", ["WebFetch"], "allow"),
    ("https://xn--exmple-4uf.com/", ["WebFetch"], "ask"),
    ("https://other.test/", ["WebFetch(domain:*)"], "allow"),
    ("https://other.test/", ["WebFetch(https://other.test/*)"], "ask"),
    ("https://other.test/", [], "ask"),
    # what no rule lets through
    ("file:///etc/passwd", ["WebFetch"], "deny"),
    ("ftp://example.com/", ["WebFetch"], "deny"),
    ("data:text/html,x", ["WebFetch"], "deny"),
    ("javascript:alert(1)", ["WebFetch"], "deny"),
    ("https://", ["WebFetch"], "deny"),
    ("http://169.254.169.254/latest", ["WebFetch"], "ask"),
    ("http://169.254.169.254/latest", ["WebFetch(domain:169.254.169.254)"], "ask"),
    ("http://metadata.google.internal/", ["WebFetch(domain:metadata.google.internal)"], "ask"),
    *(
        (f"http://{host}/", ["WebFetch"], "ask")
        for host in ("127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "[::1]", "0.0.0.0")
    ),
    *(
        (f"http://{host}/", ["WebFetch"], "ask")
        for host in ("2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "0251.0376.0251.0376")
    ),
    *(
        (f"http://{host}/", ["WebFetch"], "ask")
        for host in ("[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]")
    ),
    *(
        (f"http://{host}/", ["WebFetch"], "ask")
        for host in ("printer.local", "intranet", "db.internal", "224.0.0.1", "134744072", "8.8.2056")
    ),
    ("http://8.8.8.8/", ["WebFetch"], "allow"),
    ("http://localhost:3000/", ["WebFetch(domain:localhost)"], "allow"),
    ("http://127.0.0.1:3000/", ["WebFetch(domain:127.0.0.1)"], "allow"),
    ("http://127.0.0.1:3000/", ["WebFetch(domain:127.0.0.*)"], "ask"),
]


@pytest.mark.parametrize(("url", "allow", "decision"), ADDRESSES)
def test_an_address_is_allowed_only_by_the_host_that_it_goes_to(url: str, allow: list[str], decision: str) -> None:
    verdict = weighed("WebFetch", {"url": url, "prompt": "x"}, allow=allow)

    assert verdict.decision == decision, verdict.detail


DENIED = [
    *(
        "https://evil.test/",
        "https://EVIL.test./x",
        "https://a@evil.test/",
        "https://evil.test@example.com/",
        "https://evil.test\\x",
    ),
    *("https://ev\til.test/", "https://evil\uff0etest/", "http://evil.test:81/", "https://example.com\\@evil.test/"),
]


@pytest.mark.parametrize("url", DENIED)
def test_a_denied_host_is_denied_however_it_is_written(url: str) -> None:
    assert weighed("WebFetch", url, allow=["WebFetch"], deny=["WebFetch(domain:evil.test)"]).decision == "deny"


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://a.evil.test/", "WebFetch(domain:*.evil.test)"),
        ("http://2130706433/", "WebFetch(domain:127.0.0.1)"),
        ("http://[::ffff:7f00:1]/", "WebFetch(domain:127.0.0.1)"),
        ("https://evil.test/x", "WebFetch(https://evil.test/*)"),
        ("https://evil.test/x", "WebFetch(domain:*)"),
        ("https://evil.test/x", "WebFetch(*)"),
    ],
)
def test_rules_that_deny_are_read_widely(url: str, rule: str) -> None:
    assert weighed("WebFetch", url, allow=["WebFetch"], deny=[rule]).decision == "deny"
    assert weighed("WebFetch", url, mode="bypassPermissions", deny=[rule]).decision == "deny"


def test_a_rule_that_asks_holds_in_every_mode() -> None:
    asks = ["WebFetch(domain:example.com)"]

    assert weighed("WebFetch", "https://example.com", allow=["WebFetch"], ask=asks).decision == "ask"
    assert weighed("WebFetch", "https://example.com", mode="bypassPermissions", ask=asks).decision == "ask"
    assert weighed("WebFetch", "https://example.com", mode="dontAsk", allow=["WebFetch"], ask=asks).decision == "deny"


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://169.254.169.254/"])
def test_no_mode_reaches_into_the_machine_or_its_network_by_itself(url: str) -> None:
    assert weighed("WebFetch", url, mode="bypassPermissions").decision == "ask"
    assert weighed("WebFetch", url, approved=True).decision == "allow"


def test_the_host_is_offered_and_nothing_wider() -> None:
    assert weighed("WebFetch", "https://docs.example.com/a/b").offers == ("WebFetch(domain:docs.example.com)",)
    assert weighed("WebFetch", "http://10.0.0.1/").offers == ()
    assert weighed("WebFetch", "https://a@b.test/").offers == ()
