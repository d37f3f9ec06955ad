"""A partition's state of idempotent producers: detects repeated and missing batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streams.embedded.errors import RefusedError
from streams.embedded.protocol.batches import next_sequence
from streams.embedded.protocol.codes import ErrorCode

if TYPE_CHECKING:
    from streams.embedded.protocol.batches import BatchHeader

# Maximum requests in flight of an idempotent producer (KIP-185).
_REMEMBERED_BATCHES: Final = 5


@dataclass(slots=True)
class _ProducerState:
    epoch: int
    # (first sequence, last sequence, base offset), oldest first
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))


class ProducerStates:
    """The idempotent producers that wrote to one partition."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, _ProducerState] = {}

    def duplicate_of(self, header: BatchHeader) -> int | None:
        """Check a batch of an idempotent producer against the earlier ones.

        Returns:
            The base offset of an identical stored batch, or None for a new one.

        Raises:
            RefusedError: The epoch is older than one seen, or batches in between are missing.
        """
        state = self._states.get(header.producer_id)
        if state is None:  # as in Kafka: without state of the producer (retention), any sequence may start
            return None
        if header.producer_epoch < state.epoch:
            raise RefusedError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                (
                    f"producer {header.producer_id} wrote with epoch {state.epoch}, got the older "
                    f"{header.producer_epoch}"
                ),
            )
        if header.producer_epoch > state.epoch:
            expected = 0
        else:
            for first, last, offset in state.recent:
                if (first, last) == (header.base_sequence, header.last_sequence):
                    return offset
            expected = next_sequence(state.recent[-1][1])
        if header.base_sequence != expected:
            raise RefusedError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                (
                    f"producer {header.producer_id} must continue with sequence {expected}, got "
                    f"{header.base_sequence}"
                ),
            )
        return None

    def remember(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a stored batch."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            state = self._states[header.producer_id] = _ProducerState(header.producer_epoch)
        state.recent.append((header.base_sequence, header.last_sequence, base_offset))
