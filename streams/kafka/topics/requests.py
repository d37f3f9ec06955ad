"""Requests that report permissions (KIP-430), in versions that aiokafka lacks or encodes wrongly.

Both use the fixed-width encoding; newer versions add nothing that is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import Array, Boolean, Bytes, Int16, Int32, Schema, String

_TEXT: Final = String("utf-8")


class _MetadataResponse8(Response):  # type: ignore[misc] # the library has no usable annotations
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _MetadataRequest8(RequestStruct):  # type: ignore[misc] # as above
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse8
    SCHEMA = Schema(
        ("topics", Array(_TEXT)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _DescribeGroupsResponse3(Response):  # type: ignore[misc] # as above
    API_KEY = 15
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", _TEXT),
                ("state", _TEXT),
                ("protocol_type", _TEXT),
                ("protocol", _TEXT),
                (
                    "members",
                    Array(
                        ("member_id", _TEXT),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("member_metadata", Bytes),
                        ("member_assignment", Bytes),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
    )


class _DescribeGroupsRequest3(RequestStruct):  # type: ignore[misc] # as above
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = _DescribeGroupsResponse3
    SCHEMA = Schema(("groups", Array(_TEXT)), ("include_authorized_operations", Boolean))


def _newest(versions: Mapping[int, tuple[int, int]], key: int) -> int:
    return versions.get(key, (0, 0))[1]


class TopicsWithRights:
    """Requests the metadata of topics, without creating them, with permissions if the broker reports them.

    Args:
        names: The topics; empty to request only the brokers.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Return the request in the broker's version; called by the connection."""
        if _newest(versions, 3) >= 8:
            return _MetadataRequest8(self._names, False, False, True)  # noqa: FBT003 - aiokafka takes them by position
        return MetadataRequest(self._names, allow_auto_topic_creation=False).prepare(versions)


class GroupWithRights:
    """Requests the description of a consumer group, with permissions if the broker reports them.

    Args:
        group_id: The group.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Return the request in the broker's version; called by the connection."""
        if _newest(versions, 15) >= 3:
            return _DescribeGroupsRequest3([self._group_id], True)  # noqa: FBT003 - as above
        return DescribeGroupsRequest([self._group_id]).prepare(versions)
