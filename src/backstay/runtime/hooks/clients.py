"""The client that posts for hooks: guarded, and open only to the address that a person wrote down."""

from urllib.parse import urlsplit

import httpx

from backstay.logic.hooks.spec import HookSpec, HttpHook
from backstay.workspaces.egress import Egress


def guarded_client(spec: HookSpec) -> httpx.AsyncClient:
    """A client for one hook.

    A hook of the person or of whoever runs the machine may be an address of this machine or of a private network, and of any port, since
    they wrote it down. What came with a workspace or a plugin reaches public addresses by the usual ports only.
    """
    if not isinstance(spec.handler, HttpHook) or spec.source not in ("managed", "person", "flag"):
        return Egress().client()
    parts = urlsplit(spec.handler.url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Egress(allow_hosts=(host,), allow_private=(named,), allow_ports=(port,)).client()
