"""The topics: names, partitions and the supported settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aiokafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from streams.embedded.partition import PartitionLog

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_PARTITIONS: Final = 10_000
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_RETENTION_BYTES: Final = "retention.bytes"
_NO_BOUND: Final = -1
DEFAULT_PARTITIONS: Final = 4
DEFAULTS: Final = {_MAX_MESSAGE_BYTES: str(16 * 1024 * 1024), _RETENTION_BYTES: str(_NO_BOUND)}


class Topic:
    """A topic's partitions and settings.

    Settings other than `max.message.bytes` and `retention.bytes` are stored without effect.
    """

    def __init__(self, partition_count: int, configs: Mapping[str, str]) -> None:
        self.partitions = [PartitionLog() for _ in range(partition_count)]
        self.configs: dict[str, str] = {}
        self._max_batch_bytes = 0
        self._retention_bytes: int | None = None
        self.configure(configs)

    def configure(self, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        settings = {**DEFAULTS, **configs}
        max_batch_bytes = _size(_MAX_MESSAGE_BYTES, settings[_MAX_MESSAGE_BYTES], least=0)
        retention_bytes = _size(_RETENTION_BYTES, settings[_RETENTION_BYTES], least=_NO_BOUND)
        if validate_only:
            return
        self._max_batch_bytes = max_batch_bytes
        self._retention_bytes = None if retention_bytes == _NO_BOUND else retention_bytes
        self.configs = dict(configs)

    def settings(self) -> dict[str, tuple[str, bool]]:
        """Return each setting's value, and whether it is the broker's default."""
        return {
            name: (value, name not in self.configs) for name, value in {**DEFAULTS, **self.configs}.items()
        }

    def append(self, partition: PartitionLog, data: bytes) -> int:
        return partition.append(
            data, max_batch_bytes=self._max_batch_bytes, retention_bytes=self._retention_bytes
        )


class Topics:
    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}

    def get(self, name: str) -> Topic:
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        return topic

    def partition(self, name: str, index: int) -> PartitionLog:
        partitions = self.get(name).partitions
        if not 0 <= index < len(partitions):
            raise UnknownTopicOrPartitionError(
                f"topic {name!r} has the partitions 0..{len(partitions) - 1}, not {index}"
            )
        return partitions[index]

    def create(
        self,
        name: str,
        partition_count: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        count = DEFAULT_PARTITIONS if partition_count is None else partition_count
        if not name or not _NAME.fullmatch(name) or name in {".", ".."}:
            raise InvalidTopicError(
                f"topic name {str(name)[:300]!r} must be 1-249 of the characters a-z A-Z 0-9 . _ -"
            )
        if name in self.by_name:
            raise TopicAlreadyExistsError(f"topic {name!r} already exists")
        if not 1 <= count <= _MAX_PARTITIONS:
            raise InvalidPartitionsError(f"partitions of {name!r} must be 1..{_MAX_PARTITIONS}, got {count}")
        topic = Topic(count, configs or {})
        if not validate_only:
            self.by_name[name] = topic
        return topic

    def delete(self, name: str) -> None:
        topic = self.get(name)
        del self.by_name[name]
        for partition in topic.partitions:
            partition.wake_watchers()

    def extend(self, name: str, partition_count: int, *, validate_only: bool = False) -> None:
        partitions = self.get(name).partitions
        if not len(partitions) < partition_count <= _MAX_PARTITIONS:
            raise InvalidPartitionsError(
                f"topic {name!r} has {len(partitions)} partitions; a new number must be larger and at most "
                f"{_MAX_PARTITIONS}, got {partition_count}"
            )
        if not validate_only:
            partitions.extend(PartitionLog() for _ in range(partition_count - len(partitions)))


def _size(name: str, value: str, *, least: int) -> int:
    try:
        size = int(value)
    except ValueError:
        size = least - 1
    if size < least:
        raise InvalidConfigurationError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return size
