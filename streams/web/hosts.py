"""Host names accepted without a login, against DNS rebinding. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import Final

_LOCAL_ENDS: Final = (".localhost", ".local", ".internal", ".svc", ".home.arpa", ".test")
"""Domains that cannot be registered (RFC 6761, RFC 6762, RFC 8375, ICANN's `internal`; `svc` is
Kubernetes')."""
MAX_HOST_CHARS: Final = 300
_AUTHORITY_END: Final = re.compile("[/?#]")


def is_own_host(headers: Sequence[str], allowed: Collection[str] = ()) -> bool:
    """Return whether a request's Host header means this machine.

    With DNS rebinding, Host is the attacker's domain. Addresses, names without a dot and private domains
    cannot be registered.

    Args:
        headers: All Host headers of the request.
        allowed: Further names; `*.example.com` means all subdomains of example.com.
    """
    if len(headers) != 1 or len(headers[0]) > MAX_HOST_CHARS:
        return False
    name = _name(headers[0].strip().lower())
    if not name:
        return False
    if _is_address(name) or "." not in name or name.endswith(_LOCAL_ENDS):
        return True
    return any(
        name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in map(str.lower, allowed)
    )


def is_own_target(target: str, allowed: Collection[str] = ()) -> bool:
    """Return whether a request's target is a path, or a URL of this machine.

    A URL takes precedence over the header Host (RFC 9112, 3.2.2).

    Args:
        target: The target of the request line.
        allowed: As for `is_own_host`.
    """
    if target.startswith(("/", "*")):
        return True
    scheme, _, rest = target[: 2 * MAX_HOST_CHARS].partition("://")
    return scheme.lower() in {"http", "https"} and is_own_host(
        [_AUTHORITY_END.split(rest, maxsplit=1)[0]], allowed
    )


def _name(host: str) -> str:
    """Return the name without its port and final dot."""
    if host.startswith("["):
        inside, closed, _ = host[1:].partition("]")
        return inside if closed else ""
    name, _, port = host.partition(":")
    return name.removesuffix(".") if not port or port.isdecimal() else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
