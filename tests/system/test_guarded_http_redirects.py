"""Redirects: each is judged like the first address, and what was meant for one host does not go to another."""

from pathlib import Path

import pytest

from backstay.system.guarded_http import Egress
from backstay.vocab.errors import EgressRefused
from tests.system.egress_kit import Page, Site, always, certificate_for, get, leads_to, page, refusal

pytestmark = pytest.mark.anyio


def names_of(*sites: Site) -> Egress:
    """A guard for which `one.example`, `two.example` are private names of this machine."""
    private = {f"{name}:{site.port}" for site in sites for name in ("one.example", "two.example")}
    return Egress(allow_private=private, resolve=always("127.0.0.1"))


async def test_a_redirect_is_handed_to_the_caller_unless_it_is_to_be_followed() -> None:
    async with Site({"/": leads_to("/next"), "/next": page("there")}) as site:
        left = await get(site.egress(), site.url())
        followed = await get(site.egress(), site.url(), follow_redirects=True)

        assert (left.status_code, left.headers["location"]) == (302, "/next")
        assert (followed.text, [each.status_code for each in followed.history]) == ("there", [302])


@pytest.mark.contract("RV-31", "RV-B16")
@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("http://127.0.0.2:{port}/secret", "port"),
        ("http://127.0.0.2/", "address"),
        ("http://127.1/", "address"),
        ("http://169.254.169.254/latest/meta-data/", "address"),
        ("http://[::ffff:a9fe:a9fe]/", "address"),
        ("http://2130706433/", "address"),
        ("//metadata.google.internal/", "host"),
        ("http://localhost/", "host"),
        ("http://user:pw@example.com/", "userinfo"),
        ("http://example.com:22/", "port"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://example.com/", "scheme"),
    ],
)
async def test_a_redirect_to_where_nothing_may_go_is_refused(location: str, kind: str) -> None:
    async with Site() as site:
        site.pages["/"] = leads_to(location.format(port=site.port))

        refused = await refusal(site.egress(), site.url(), follow_redirects=True)

        assert refused.kind == kind
        assert len(site.asked) == 1


@pytest.mark.contract("RV-B16")
async def test_a_chain_is_followed_five_times_and_no_more() -> None:
    async with Site({f"/{step}": leads_to(f"/{step + 1}") for step in range(7)} | {"/7": page("end")}) as site:
        assert (await get(site.egress(), site.url("/2"), follow_redirects=True)).text == "end"
        refused = await refusal(site.egress(), site.url("/1"), follow_redirects=True)

        assert (refused.kind, refused.why) == ("redirect", "it redirects more than 5 times.")


async def test_a_circle_ends() -> None:
    async with Site({"/": leads_to("/")}) as site:
        assert (await refusal(site.egress(), site.url(), follow_redirects=True)).kind == "redirect"
        assert len(site.asked) == 6


@pytest.mark.contract("RV-B16")
async def test_a_private_host_is_reached_by_a_redirect_only_from_itself() -> None:
    async with Site() as outside, Site({"/": page("inside"), "/again": leads_to("/")}) as inside:
        outside.pages["/"] = leads_to(inside.url(host="two.example"))
        egress = names_of(outside, inside)

        refused = await refusal(egress, outside.url(host="one.example"), follow_redirects=True)

        assert (refused.kind, refused.host, inside.connections) == ("address", "two.example", 0)
        assert (await get(egress, inside.url("/again", host="two.example"), follow_redirects=True)).text == "inside"


async def test_a_private_host_is_not_reached_by_a_way_round_either() -> None:
    async with Site() as outside:
        outside.pages["/"] = leads_to(outside.url("/there", host="two.example"))
        outside.pages["/there"] = leads_to(outside.url("/back", host="one.example"))

        assert (
            await refusal(names_of(outside), outside.url(host="one.example"), follow_redirects=True)
        ).host == "two.example"
        assert len(outside.asked) == 1


async def test_https_is_never_left_for_http(tmp_path: Path) -> None:
    server, believing = certificate_for("one.example", tmp_path)
    async with Site(tls=server) as sealed, Site({"/": page("open")}) as plain:
        sealed.pages["/"] = leads_to(plain.url(host="one.example"))
        private = {f"one.example:{site.port}" for site in (sealed, plain)}
        egress = Egress(allow_private=private, resolve=always("127.0.0.1"), certificates=believing)

        refused = await refusal(egress, sealed.url(host="one.example"), follow_redirects=True)

        assert (refused.kind, refused.why, plain.connections) == ("redirect", "it redirects from https to http.", 0)


@pytest.mark.parametrize("status", [307, 308])
async def test_what_was_sent_to_one_host_is_not_sent_on_to_another(status: int) -> None:
    async with Site() as site:
        site.pages["/"] = leads_to("http://elsewhere.example/", status)
        async with site.egress().client(follow_redirects=True) as client:
            with pytest.raises(EgressRefused, match=r"sent on to 'elsewhere.example'"):
                await client.post(site.url(), json={"private": True})


async def test_what_was_sent_to_one_host_is_sent_on_within_it() -> None:
    async with Site({"/": leads_to("/next", 307), "/next": page("taken")}) as site:
        async with site.egress().client(follow_redirects=True) as client:
            response = await client.post(site.url(), content=b"body")

        assert (response.text, site.asked[1].body) == ("taken", b"body")


async def test_headers_for_one_host_do_not_go_along_to_another() -> None:
    import httpx

    from backstay.system.guarded_http import _judge_redirect

    secrets = {"Authorization": "Bearer a", "X-Subscription-Token": "b", "Cookie": "c=d", "Accept": "text/html"}
    before = httpx.Request("GET", "https://one.example/", headers=secrets)
    inside = httpx.Request("GET", "https://one.example/next", headers=secrets)
    outside = httpx.Request("GET", "https://two.example/", headers=secrets)

    assert not _judge_redirect(before, inside)
    assert _judge_redirect(before, outside)
    assert inside.headers["x-subscription-token"] == "b"
    assert dict(outside.headers) == {"host": "two.example", "accept": "text/html"}


async def test_a_redirect_without_an_address_is_an_answer() -> None:
    async with Site({"/": Page(b"odd", status=302)}) as site:
        assert (await get(site.egress(), site.url(), follow_redirects=True)).text == "odd"
