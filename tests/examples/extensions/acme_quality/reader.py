"""Records of the form `id|question|answer`."""

from __future__ import annotations

from schemas import QAEvent
from streams.errors import undecodable
from streams.intake.reader import EventReader, Headers
from streams.intake.reading.decode import event_of


class PipeReader(EventReader):
    """Reads three texts between vertical bars."""

    def decode(
        self, value: bytes | None, headers: Headers | None = None, timestamp_ms: int | None = None
    ) -> QAEvent:
        del headers, timestamp_ms
        texts = (value or b"").decode("utf-8", "replace").split("|")
        if len(texts) != 3:
            raise undecodable(f"value: must have three texts, got {len(texts)}")
        return event_of({"event_id": texts[0], "question": texts[1], "answer": texts[2]})
