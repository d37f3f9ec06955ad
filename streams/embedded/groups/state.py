"""The states of a consumer group.

EMPTY -> PREPARING -> COMPLETING -> STABLE
^  members join  |  the leader assigns
+---- a member joins, leaves, or changes its subscription
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
