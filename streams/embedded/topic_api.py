"""Handlers of topic requests: metadata, creation, deletion, partitions and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from streams.embedded.group_api import GroupCoordinator
from streams.embedded.topics import DEFAULT_PARTITIONS, Topics
from streams.embedded.wire import Api, ApiKey, ErrorCode, Reader, RefusedError, Request, Writer

NODE_ID: Final = 0
_UNSET_PARTITIONS: Final = -1
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SOURCE_TOPIC: Final = 1
_SOURCE_DEFAULT: Final = 5


_NewTopic: TypeAlias = tuple[str, int, int, int, dict[str, str]]
"""Name, partitions, replication factor, assigned partitions, settings."""


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
            Api(ApiKey.METADATA, 5, 6, self.metadata),
            Api(ApiKey.FIND_COORDINATOR, 1, 2, self.find_coordinator),
            Api(ApiKey.CREATE_TOPICS, 2, 3, self.create_topics),
            Api(ApiKey.DELETE_TOPICS, 1, 3, self.delete_topics),
            Api(ApiKey.CREATE_PARTITIONS, 0, 1, self.create_partitions),
            Api(ApiKey.DESCRIBE_CONFIGS, 1, 2, self.describe_configs),
            Api(ApiKey.ALTER_CONFIGS, 0, 1, self.alter_configs),
        )

    async def metadata(self, request: Request) -> Writer:
        body = request.body
        names = body.nullable_array(body.string)
        may_create = body.boolean() and self._auto_create_topics
        if names is None:
            names = list(self._topics.by_name)
        reply = request.reply()

        def write_partition(index: int) -> None:
            reply.numbers("hii", ErrorCode.NONE, index, NODE_ID)
            reply.array((NODE_ID,), reply.int32)
            reply.array((NODE_ID,), reply.int32)
            reply.array((), reply.int32)  # offline replicas

        def write_topic(name: str) -> None:
            error, partition_count = ErrorCode.NONE, 0
            try:
                if may_create and name not in self._topics.by_name:
                    self._topics.create(name)
                partition_count = len(self._topics.get(name).partitions)
            except RefusedError as refused:
                error = refused.code
            reply.int16(error)
            reply.string(name)
            reply.boolean(value=False)  # internal
            reply.array(range(partition_count), write_partition)

        reply.int32(1)
        self._write_broker(reply)
        reply.string(None)  # rack
        reply.string("judgestream-embedded")
        reply.int32(NODE_ID)
        reply.array(names, write_topic)
        return reply

    async def find_coordinator(self, request: Request) -> Writer:
        reply = request.reply()
        reply.int16(ErrorCode.NONE)
        reply.string(None)
        self._write_broker(reply)
        return reply

    def _write_broker(self, reply: Writer) -> None:
        host, port = self._address()
        reply.int32(NODE_ID)
        reply.string(host)
        reply.int32(port)

    async def create_topics(self, request: Request) -> Writer:
        body = request.body

        def read_topic() -> _NewTopic:
            name, partition_count, copies = body.string(), body.int32(), body.int16()
            assigned = body.array(lambda: (body.int32(), body.array(body.int32)))
            return name, partition_count, copies, len(assigned), _configs(body)

        new_topics = body.array(read_topic)
        body.int32()  # timeout: creation is immediate
        validate_only = body.boolean()
        reply = request.reply()

        def write_outcome(new: _NewTopic) -> None:
            error, message = _outcome(lambda: self._create(new, validate_only=validate_only))
            reply.string(new[0])
            reply.int16(error)
            reply.string(message)

        reply.array(new_topics, write_outcome)
        return reply

    async def delete_topics(self, request: Request) -> Writer:
        reply = request.reply()

        def delete(name: str) -> None:
            self._topics.delete(name)
            self._coordinator.forget_topic(name)

        def write_outcome(name: str) -> None:
            error, _ = _outcome(lambda: delete(name))
            reply.string(name)
            reply.int16(error)

        reply.array(request.body.array(request.body.string), write_outcome)
        return reply

    async def create_partitions(self, request: Request) -> Writer:
        body = request.body

        def read_topic() -> tuple[str, int]:
            name, count = body.string(), body.int32()
            body.array(lambda: body.array(body.int32))  # assignment: there is one broker
            return name, count

        wanted = body.array(read_topic)
        body.int32()  # timeout
        validate_only = body.boolean()
        reply = request.reply()

        def write_outcome(item: tuple[str, int]) -> None:
            name, count = item
            error, message = _outcome(lambda: self._topics.extend(name, count, validate_only=validate_only))
            reply.string(name)
            reply.int16(error)
            reply.string(message)

        reply.array(wanted, write_outcome)
        return reply

    async def describe_configs(self, request: Request) -> Writer:
        body = request.body
        resources = body.array(lambda: (body.int8(), body.string(), body.nullable_array(body.string)))
        reply = request.reply()

        def write_resource(resource: tuple[int, str, list[str] | None]) -> None:
            kind, name, only = resource
            error, message = ErrorCode.NONE, None
            settings: dict[str, tuple[str, bool]] = {}
            try:
                settings = self._settings(kind, name)
            except RefusedError as refused:
                error, message = refused.code, refused.message
            _write_resource(reply, error, message, kind, name)

            def write_config(setting: str) -> None:
                value, is_default = settings[setting]
                reply.strings(setting, value)
                reply.boolean(kind == _BROKER_RESOURCE)  # read-only
                reply.int8(_SOURCE_DEFAULT if is_default else _SOURCE_TOPIC)
                reply.boolean(value=False)  # sensitive
                reply.array((), reply.string)  # synonyms

            reply.array((key for key in settings if only is None or key in only), write_config)

        reply.array(resources, write_resource)
        return reply

    async def alter_configs(self, request: Request) -> Writer:
        body = request.body
        resources = body.array(lambda: (body.int8(), body.string(), _configs(body)))
        validate_only = body.boolean()
        reply = request.reply()

        def write_outcome(resource: tuple[int, str, dict[str, str]]) -> None:
            kind, name, configs = resource
            error, message = _outcome(lambda: self._alter(kind, name, configs, validate_only=validate_only))
            _write_resource(reply, error, message, kind, name)

        reply.array(resources, write_outcome)
        return reply

    def _create(self, new: _NewTopic, *, validate_only: bool) -> None:
        name, count, copies, assigned, configs = new
        if not assigned and copies not in {-1, 1}:
            raise RefusedError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor of {name!r} must be 1 (there is one broker), got {copies}",
            )
        wanted = assigned or (None if count == _UNSET_PARTITIONS else count)
        self._topics.create(name, wanted, configs, validate_only=validate_only)

    def _settings(self, kind: int, name: str) -> dict[str, tuple[str, bool]]:
        if kind == _TOPIC_RESOURCE:
            return self._topics.get(name).settings()
        if kind == _BROKER_RESOURCE and name in {"", str(NODE_ID)}:
            return {
                "auto.create.topics.enable": (str(self._auto_create_topics).lower(), True),
                "num.partitions": (str(DEFAULT_PARTITIONS), True),
            }
        raise _no_such_resource(kind, name)

    def _alter(self, kind: int, name: str, configs: dict[str, str], *, validate_only: bool) -> None:
        if kind != _TOPIC_RESOURCE:
            raise _no_such_resource(kind, name)
        self._topics.get(name).configure(configs, validate_only=validate_only)


def _configs(body: Reader) -> dict[str, str]:
    pairs = body.array(lambda: (body.string(), body.nullable_string()))
    return {name: value for name, value in pairs if value is not None}


def _write_resource(reply: Writer, error: ErrorCode, message: str | None, kind: int, name: str) -> None:
    reply.int16(error)
    reply.string(message)
    reply.int8(kind)
    reply.string(name)


def _outcome(action: Callable[[], object]) -> tuple[ErrorCode, str | None]:
    try:
        action()
    except RefusedError as refused:
        return refused.code, refused.message
    return ErrorCode.NONE, None


def _no_such_resource(kind: int, name: str) -> RefusedError:
    return RefusedError(
        ErrorCode.INVALID_REQUEST, f"resource {name!r} of type {kind}: only topics (type 2) can be configured"
    )
