"""Parse whole OTLP records with opentelemetry-proto: `otlp_full FILE`; prints seconds per round."""

from __future__ import annotations

import struct
import sys
import time
from pathlib import Path
from typing import Final

ROUNDS: Final = 5


def records_of(content: bytes) -> list[bytes]:
    """Split a file into records, each preceded by its length in four bytes."""
    records, at = [], 0
    while at < len(content):
        (size,) = struct.unpack_from(">I", content, at)
        records.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    return records


def main() -> None:
    """Time some rounds."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - of the peers' environment
        ExportTraceServiceRequest,
    )

    records = records_of(Path(sys.argv[1]).read_bytes())
    for _ in range(ROUNDS):
        started = time.process_time()
        for record in records:
            ExportTraceServiceRequest.FromString(record)
        print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    main()
