"""Our permissions at a broker: Kafka's operation numbers, and the field that reports them."""

from __future__ import annotations

from enum import IntEnum


class Right(IntEnum):
    """What an ACL may allow, by Kafka's numbers (AclOperation)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


NO_RIGHTS_TOLD = -(2**31)
"""What a broker sends in place of rights that it was not asked for."""


def rights_of(bits: int) -> frozenset[Right] | None:
    """Read the field `authorized_operations` (KIP-430): bit n stands for AclOperation n.

    Returns:
        Those that matter here; None where the broker does not report.
    """
    return None if bits == NO_RIGHTS_TOLD else frozenset(one for one in Right if bits >> one & 1)
