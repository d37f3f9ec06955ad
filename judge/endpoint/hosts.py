"""Loopback test for hosts."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address; of names only `localhost` counts."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
