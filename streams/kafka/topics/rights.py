"""Permissions on a broker: Kafka's operation numbers and the field that reports them."""

from __future__ import annotations

from enum import IntEnum


class Right(IntEnum):
    """Operations of an ACL, by Kafka's numbers (AclOperation)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


NO_RIGHTS_TOLD = -(2**31)
"""The value if permissions were not requested."""


def rights_of(bits: int) -> frozenset[Right] | None:
    """Decode the field `authorized_operations` (KIP-430): bit n stands for AclOperation n.

    Returns:
        The operations of `Right` that are allowed; None if the broker does not report them.
    """
    return None if bits == NO_RIGHTS_TOLD else frozenset(one for one in Right if bits >> one & 1)
