"""The states of a consumer group.

EMPTY -> PREPARING -> COMPLETING -> STABLE
^  members join  |  the leader assigns
+---- a member comes, goes, or changes its subscription
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """Where a group is between two generations; the values are the names clients are shown."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
