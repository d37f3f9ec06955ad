"""The topics: names, partitions and the supported settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from streams.embedded.errors import RefusedError
from streams.embedded.log.partition import Partition
from streams.embedded.protocol.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streams.embedded.protocol.wire import Buffer

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_PARTITIONS: Final = 10_000
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_RETENTION_BYTES: Final = "retention.bytes"
_NO_BOUND: Final = -1


class Topic:
    """A topic's partitions and settings.

    Settings other than `max.message.bytes` and `retention.bytes` are stored without effect.
    """

    def __init__(self, partition_count: int, defaults: Mapping[str, str], configs: Mapping[str, str]) -> None:
        self._defaults = dict(defaults)
        self.partitions = [Partition() for _ in range(partition_count)]
        self.configs: dict[str, str] = {}
        self._max_batch_bytes = 0
        self._retention_bytes: int | None = None
        self.configure(configs)

    def configure(self, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the topic's own settings.

        Args:
            configs: All of the topic's own values; omitted ones return to their defaults.
            validate_only: Whether to check the values without changing them.

        Raises:
            RefusedError: INVALID_CONFIG, if a size is not a whole number in its range.
        """
        settings = {**self._defaults, **configs}
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
            name: (value, name not in self.configs)
            for name, value in {**self._defaults, **self.configs}.items()
        }

    def append(self, partition: Partition, data: Buffer) -> int:
        """Store a batch in a partition, within the topic's limits; return its first offset."""
        return partition.append(
            data, max_batch_bytes=self._max_batch_bytes, retention_bytes=self._retention_bytes
        )


class Topics:
    """All topics of the broker.

    Args:
        default_partitions: Partitions of topics created without a number.
        max_message_bytes: The largest batch, unless the topic sets another limit.
        max_bytes_per_partition: Size limit of a partition, unless the topic sets another; None: no limit.
    """

    def __init__(
        self, *, default_partitions: int, max_message_bytes: int, max_bytes_per_partition: int | None
    ) -> None:
        self.default_partitions = default_partitions
        self._defaults = {
            _MAX_MESSAGE_BYTES: str(max_message_bytes),
            _RETENTION_BYTES: str(_NO_BOUND if max_bytes_per_partition is None else max_bytes_per_partition),
        }
        self._topics: dict[str, Topic] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def get(self, name: str) -> Topic:
        """Return the topic of a name.

        Raises:
            RefusedError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self._topics.get(name)
        if topic is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def partition(self, name: str, index: int) -> Partition:
        """Return one partition of a topic.

        Raises:
            RefusedError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        partitions = self.get(name).partitions
        if not 0 <= index < len(partitions):
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has the partitions 0..{len(partitions) - 1}, not {index}",
            )
        return partitions[index]

    def has(self, name: str, index: int) -> bool:
        """Return whether a partition exists."""
        topic = self._topics.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    def create(
        self,
        name: str,
        partition_count: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic.

        Args:
            name: 1-249 of the characters a-z A-Z 0-9 . _ -
            partition_count: 1-10,000; None: the default.
            validate_only: Whether to check without creating it.

        Raises:
            RefusedError: It already exists, or the name, the count or a setting is invalid.
        """
        count = self.default_partitions if partition_count is None else partition_count
        if not _NAME.fullmatch(name) or name in {".", ".."}:
            raise RefusedError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name {name[:300]!r} must be 1-249 of the characters a-z A-Z 0-9 . _ -",
            )
        if name in self._topics:
            raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        if not 1 <= count <= _MAX_PARTITIONS:
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS,
                f"partitions of {name!r} must be 1..{_MAX_PARTITIONS}, got {count}",
            )
        topic = Topic(count, self._defaults, configs or {})
        if not validate_only:
            self._topics[name] = topic
        return topic

    def delete(self, name: str) -> None:
        """Delete a topic and its records.

        Raises:
            RefusedError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self.get(name)
        del self._topics[name]
        for partition in topic.partitions:
            partition.wake_watchers()

    def extend(self, name: str, partition_count: int, *, validate_only: bool = False) -> None:
        """Add partitions to a topic.

        Raises:
            RefusedError: The topic does not exist, or the number is not larger than before.
        """
        partitions = self.get(name).partitions
        if not len(partitions) < partition_count <= _MAX_PARTITIONS:
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {len(partitions)} partitions; a new number must be larger and at most "
                f"{_MAX_PARTITIONS}, got {partition_count}",
            )
        if not validate_only:
            partitions.extend(Partition() for _ in range(partition_count - len(partitions)))


def _size(name: str, value: str, *, least: int) -> int:
    try:
        size = int(value)
    except ValueError:
        size = least - 1
    if size < least:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG, f"{name} must be a whole number of at least {least}, got {value!r}"
        )
    return size
