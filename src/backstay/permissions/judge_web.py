"""Judge calls that go to the web, by their host."""

import ipaddress
import re
import unicodedata
from typing import Final, Literal
from urllib.parse import unquote

from msgspec import Struct

from backstay.permissions.arguments import matches_text
from backstay.permissions.judgement import Finding, Hold, JudgeContext
from backstay.permissions.networks import NUMBER, judge_address, read_host, table, why_local
from backstay.permissions.rule_index import Side, is_about
from backstay.permissions.wildcards import star_match
from backstay.vocab.errors import EgressRefused
from backstay.vocab.rules import Rule

_STRICT: Final = re.compile(r"(?i:https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(\d{1,5}))?(?:[/?#][^\s\\]*)?")
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
_UNSEEN: Final = frozenset(("\u034f", "\u180b", "\u180c", "\u180d", *map(chr, range(0xFE00, 0xFE10))))
"""Characters that are left out of names, beside those that only format."""
Standing = Literal["public", "private", "metadata"]


class Target(Struct, frozen=True):
    """Where a URL goes."""

    host: str
    """In lower case without a final dot, numbers as four of them; empty when there is none."""
    standing: Standing = "public"
    odd: str = ""
    """Why it cannot be taken at its word."""
    scheme: str = "https"
    encoded: bool = False
    """Whether all that is odd about it is another script: who names that very host means it."""
    readings: tuple[str, ...] = ()
    """Every host that somebody could take it for."""


def read_url(url: str) -> Target:
    """Read a URL as strictly as rules that allow need it, and as loosely as rules that forbid do."""
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    readings = _readings(url)
    strict = _STRICT.fullmatch(url)
    if strict is None:
        host = readings[0] if readings else ""
        return Target(host, _worst(url), "it is not written as a plain address", scheme, False, readings)
    written = strict[1].lower()
    host = _canonical(written)
    odd, encoded = "", False
    if ".." in host or host.startswith(".") or written.endswith("..") or not host:
        odd = "its host has an empty part"
    elif _is_number(host) and host != written.rstrip(".").strip("[]"):
        odd = "its host is a number in disguise"
    elif any(label.startswith("xn--") for label in host.split(".")):
        odd, encoded = "its host is written in another script", True
    return Target(host, _standing(written), odd, scheme, encoded, tuple(dict.fromkeys((host, *readings))))


def allows_host(rule: Rule, target: Target) -> Literal["no", "name", "any"]:
    """Return whether a rule allows a host: by naming it, or among any others."""
    if rule.pattern is None:
        return "any"
    pattern = _domain(rule.pattern)
    if pattern is None:
        return "no"
    if pattern == target.host or (target.encoded and _encode_name(pattern) == target.host):
        return "name"
    return "any" if _covers_host(pattern, target.host) else "no"


def _encode_name(pattern: str) -> str:
    """Return a name as it goes over the wire. Only this way round says something: many spellings are read as one name."""
    labels = pattern.split(".")
    return ".".join(each if each.isascii() else f"xn--{each.encode('punycode').decode()}" for each in labels)


def forbids_host(rule: Rule, url: str, target: Target) -> bool:
    """Return whether a rule is about any host that the URL could be taken for, or about the URL as written."""
    if rule.pattern is None:
        return True
    pattern = _domain(rule.pattern)
    if pattern is not None:
        wanted = dict.fromkeys((pattern, _canonical(_clean(pattern))))
        return any(_covers_host(each, host) for each in wanted for host in target.readings) or pattern == "*"
    hosts = _readings(rule.pattern)
    return matches_text(rule.pattern, url, folds=True) or any(host in target.readings for host in hosts)


def _domain(pattern: str) -> str | None:
    return pattern[7:].strip().lower().rstrip(".") if pattern.startswith("domain:") else None


def _covers_host(pattern: str, host: str) -> bool:
    """Return whether a pattern covers a host: `*.x` stands for any depth below x, a `*` anywhere else for one label or a part of it."""
    if pattern == "*":
        return True
    wanted, labels = pattern.split("."), host.split(".")
    if wanted[0] == "*" and len(wanted) > 1:
        wanted = wanted[1:]
        if len(labels) <= len(wanted):
            return False
        labels = labels[-len(wanted) :]
    return len(wanted) == len(labels) and all(
        bool(label) and star_match(tuple(each.split("*")), label) for each, label in zip(wanted, labels, strict=True)
    )


def _readings(url: str) -> tuple[str, ...]:
    """Return every host that a URL could be taken for, as it stands and with what programs make of letters, escapes and dots."""
    found = [*_loose_hosts(url), *_loose_hosts(_clean(url))]
    names = [form for host in found for form in (host, _clean(host).strip("."), _spell_out(host))]
    return tuple(dict.fromkeys(_canonical(name) for name in names if name))


def _worst(url: str) -> Standing:
    """Return the standing of an address that is not plain: that of the least public host which it may go to."""
    found = {_standing(each) for text in (url, _clean(url)) for each in _loose_hosts(text, users=False)}
    return next((each for each in _BY_CARE if each in found), "private")


_BY_CARE: Final[tuple[Standing, ...]] = ("metadata", "private", "public")


def _clean(text: str) -> str:
    """Text as programs read it: escapes undone, letters of other shapes as plain ones, without what nobody sees."""
    plain = unicodedata.normalize("NFKC", unquote(unquote(text, errors="replace"), errors="replace")).casefold()
    seen = "".join(c for c in plain if unicodedata.category(c) not in ("Cf", "Cc") and c not in _UNSEEN)
    return unicodedata.normalize("NFKC", seen)


def _spell_out(host: str) -> str:
    """Return a host with its encoded labels in the script that they stand for."""
    if "xn--" not in host.lower():
        return ""
    labels = []
    for label in host.lower().split("."):
        try:
            labels.append(label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label)
        except UnicodeError:
            return ""
    return _clean(".".join(labels))


def _loose_hosts(url: str, *, users: bool = True) -> list[str]:
    """Return every host that some reader would find; with `users` also what stands before an `@`."""
    text = re.sub(r"[\t\r\n]", "", url.strip()).replace("\uff0e", ".").replace("\u3002", ".").replace("\uff61", ".")
    found = re.match(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*([^/?#]*)", text)
    hosts = []
    for authority in {found[1], re.split(r"[\\]", found[1])[0]} if found else ():
        for piece in (authority.rpartition("@")[2], *(authority.split("@") if users else ())):
            host = piece if piece.startswith("[") else piece.partition(":")[0]
            hosts.append(host.partition("]")[0] + "]" if host.startswith("[") else host)
    return [host for host in dict.fromkeys(hosts) if host]


def _canonical(host: str) -> str:
    """Return a host as rules compare it: lower case, no final dot, numbers spelled out."""
    name = host.lower().strip()
    name = name[:-1] if name.endswith(".") and not name.endswith("..") else name
    if name.startswith("["):
        return _address(name.strip("[]"))
    parts = name.split(".")
    if 1 <= len(parts) <= 4 and all(NUMBER.fullmatch(part) for part in parts):
        return _read(name)
    return name


def _read(name: str) -> str:
    """Return a name as a resolver reads it: the old ways to write an IPv4 address are that address."""
    try:
        return str(read_host(name))
    except EgressRefused:
        return name


def _address(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and int(address) >> 32 in (0, 0x64FF9B << 64):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if int(address) > 1 else None
    return str(inner) if inner is not None else str(address)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return all(NUMBER.fullmatch(part) for part in host.split(".")) if host else False
    return True


def _standing(host: str) -> Standing:
    """Return where a host stands that is written as `host`: as the guard of what goes out sees it."""
    try:
        found = read_host(host)
    except EgressRefused:
        return "private"
    if isinstance(found, str):
        local = why_local(found)
        return "metadata" if found in table().names.metadata else "private" if local else "public"
    judged = judge_address(found)
    return "metadata" if judged.metadata else "private" if judged.why else "public"


def judge_fetch(context: JudgeContext, url: str) -> Finding:
    """Return what the policy says about a URL."""
    what, target = f"fetches {url[:200]}", read_url(url)
    for rule in _about(context, context.rules.deny):
        if forbids_host(rule, url, target):
            return Finding(what, "deny", "rule", f"{target.host!r} is denied by the rule {str(rule)!r}")
    if target.scheme not in ("http", "https", ""):
        return Finding(what, "deny", "network", f"only http and https are fetched, not {target.scheme!r}")
    if not target.host:
        return Finding(what, "deny", "network", "the address names no host")
    for rule in _about(context, context.rules.ask):
        if forbids_host(rule, url, target):
            return Finding(what, "ask", "rule", f"the rule {str(rule)!r} asks about {target.host!r}", "hard")
    if target.standing == "metadata":
        return Finding(what, "ask", "network", f"{target.host!r} hands out the machine's own credentials", "hard")
    kinds = [(allows_host(rule, target), rule) for rule in _about(context, context.rules.allow)]
    if target.standing == "private" and not any(kind == "name" for kind, _ in kinds):
        return Finding(what, "ask", "network", f"{target.host!r} is on this machine or its network", "hard")
    if target.odd and not (target.encoded and any(kind == "name" for kind, _ in kinds)):
        held: Hold = "hard" if _about(context, context.rules.deny) else "firm"
        return Finding(what, "ask", "network", f"the address is not what it seems: {target.odd}", held)
    rule_found = next((rule for kind, rule in kinds if kind != "no"), None)
    if rule_found is not None:
        return Finding(what, "allow", "rule", f"{target.host!r} is allowed by the rule {str(rule_found)!r}")
    return Finding(what, "ask", "network", f"it goes to {target.host!r}", "soft", (f"WebFetch(domain:{target.host})",))


def judge_lookup(context: JudgeContext, query: str | None) -> Finding:
    """Return what the policy says about a search on the web: what is looked for leaves the machine."""
    what = f"searches the web for {(query or '')[:200]!r}"
    name = context.call.tool.name
    for side in (context.rules.deny, context.rules.ask):
        for rule in side.every:
            if (
                is_about(rule, name)
                and rule.pattern is not None
                and matches_text(rule.pattern, query or "", folds=True)
            ):
                if rule.decision == "deny":
                    return Finding(what, "deny", "rule", f"denied by the rule {str(rule)!r}")
                return Finding(what, "ask", "rule", f"the rule {str(rule)!r} asks", "hard")
    for rule in context.rules.allow.every:
        if is_about(rule, name) and (rule.pattern is None or matches_text(rule.pattern, query or "")):
            return Finding(what, "allow", "rule", f"allowed by the rule {str(rule)!r}")
    return Finding(what, "ask", "network", "what is searched for is told to others", "soft", (name,))


def _about(context: JudgeContext, side: Side) -> list[Rule]:
    names = (context.call.tool.name, "WebFetch")
    return [rule for rule in side.every if any(is_about(rule, name) for name in names)]
