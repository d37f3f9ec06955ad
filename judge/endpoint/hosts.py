"""Hosts in addresses: which of them are this machine."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address.

    A name other than localhost is never taken for one.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
