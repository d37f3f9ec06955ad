"""Handlers of topic requests: metadata, creation, deletion, partitions and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from aiokafka.errors import InvalidReplicationFactorError, InvalidRequestError
from aiokafka.protocol.admin import (
    AlterConfigsRequest_v0,
    CreatePartitionsRequest_v0,
    CreateTopicsRequest_v2,
    DeleteTopicsRequest_v1,
    DescribeConfigsRequest_v1,
)
from aiokafka.protocol.coordination import FindCoordinatorRequest_v1
from aiokafka.protocol.metadata import MetadataRequest_v5

from streams.embedded.group_api import GroupCoordinator
from streams.embedded.topics import DEFAULT_PARTITIONS, Topics
from streams.embedded.wire import Api, Request, attempt

NODE_ID: Final = 0
_UNSET_PARTITIONS: Final = -1
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SOURCE_TOPIC: Final = 1
_SOURCE_DEFAULT: Final = 5
_Pairs = Iterable[tuple[str, str | None]] | None


class TopicApis:
    def __init__(
        self,
        topics: Topics,
        coordinator: GroupCoordinator,
        address: Callable[[], tuple[str, int]],
        *,
        auto_create_topics: bool,
    ) -> None:
        self._topics = topics
        self._coordinator = coordinator
        self._address = address
        self._auto_create_topics = auto_create_topics

    def table(self) -> tuple[Api, ...]:
        return (
            Api(MetadataRequest_v5, 6, self.metadata),
            Api(FindCoordinatorRequest_v1, 2, self.find_coordinator),
            Api(CreateTopicsRequest_v2, 3, self.create_topics),
            Api(DeleteTopicsRequest_v1, 3, self.delete_topics),
            Api(CreatePartitionsRequest_v0, 1, self.create_partitions),
            Api(DescribeConfigsRequest_v1, 2, self.describe_configs),
            Api(AlterConfigsRequest_v0, 1, self.alter_configs),
        )

    async def metadata(self, request: Request) -> tuple[Any, ...]:
        names = request.body.topics
        may_create = request.body.allow_auto_topic_creation and self._auto_create_topics

        def count(name: str) -> int:
            if may_create and name not in self._topics.by_name:
                self._topics.create(name)
            return len(self._topics.get(name).partitions)

        def describe(name: str) -> tuple[Any, ...]:
            code, _, partitions = attempt(lambda: count(name), 0)
            here = [NODE_ID]
            return code, name, False, [(0, number, NODE_ID, here, here, ()) for number in range(partitions)]

        described = list(map(describe, list(self._topics.by_name) if names is None else names))
        return 0, [(NODE_ID, *self._address(), None)], "judgestream-embedded", NODE_ID, described

    async def find_coordinator(self, _: Request) -> tuple[Any, ...]:
        return 0, 0, None, NODE_ID, *self._address()

    async def create_topics(self, request: Request) -> tuple[Any, ...]:
        def create(name: str, count: int, copies: int, assigned: list[Any] | None, configs: _Pairs) -> None:
            if not assigned and copies not in {-1, 1}:
                raise InvalidReplicationFactorError(
                    f"replication factor of {name!r} must be 1 (there is one broker), got {copies}"
                )
            wanted = len(assigned or ()) or (None if count == _UNSET_PARTITIONS else count)
            self._topics.create(name, wanted, _given(configs), validate_only=request.body.validate_only)

        wanted = request.body.create_topic_requests or ()
        return 0, [(new[0], *_refusal(create, *new)) for new in wanted]

    async def delete_topics(self, request: Request) -> tuple[Any, ...]:
        def delete(name: str) -> None:
            self._topics.delete(name)
            self._coordinator.forget_topic(name)

        return 0, [(name, _refusal(delete, name)[0]) for name in request.body.topics or ()]

    async def create_partitions(self, request: Request) -> tuple[Any, ...]:
        def extend(name: str, count: int) -> None:
            self._topics.extend(name, count, validate_only=request.body.validate_only)

        wanted = request.body.topic_partitions or ()  # the assignment is ignored: there is one broker
        return 0, [(name, *_refusal(extend, name, count)) for name, (count, _) in wanted]

    async def describe_configs(self, request: Request) -> tuple[Any, ...]:
        def describe(kind: int, name: str, only: list[str] | None) -> tuple[Any, ...]:
            unknown: dict[str, tuple[str, bool]] = {}
            code, message, settings = attempt(lambda: self._settings(kind, name), unknown)
            entries = [
                (key, value, kind == _BROKER_RESOURCE, _SOURCE_DEFAULT if is_default else _SOURCE_TOPIC,
                 False, ())
                for key, (value, is_default) in settings.items()
                if only is None or key in only
            ]  # fmt: skip
            return code, message, kind, name, entries

        return 0, [describe(*resource) for resource in request.body.resources or ()]

    async def alter_configs(self, request: Request) -> tuple[Any, ...]:
        def alter(kind: int, name: str, configs: _Pairs) -> None:
            if kind != _TOPIC_RESOURCE:
                raise _no_such_resource(kind, name)
            self._topics.get(name).configure(_given(configs), validate_only=request.body.validate_only)

        resources = request.body.resources or ()
        return 0, [(*_refusal(alter, *resource), *resource[:2]) for resource in resources]

    def _settings(self, kind: int, name: str) -> dict[str, tuple[str, bool]]:
        if kind == _TOPIC_RESOURCE:
            return self._topics.get(name).settings()
        if kind == _BROKER_RESOURCE and name in {"", str(NODE_ID)}:
            return {
                "auto.create.topics.enable": (str(self._auto_create_topics).lower(), True),
                "num.partitions": (str(DEFAULT_PARTITIONS), True),
            }
        raise _no_such_resource(kind, name)


def _given(configs: _Pairs) -> dict[str, str]:
    return {name: value for name, value in configs or () if value is not None}


def _refusal(action: Callable[..., None], *values: Any) -> tuple[int, str | None]:
    """Do it, and return the error code (0: done) and its message."""
    return attempt(lambda: action(*values), None)[:2]


def _no_such_resource(kind: int, name: str) -> InvalidRequestError:
    return InvalidRequestError(f"resource {name!r} of type {kind}: only topics (type 2) can be configured")
