"""Patch aiokafka for the whole process when the first client is created, never at import.

| what | why |
|---|---|
| `aiokafka.client.create_conn` | opens connections with a password that is read again, and reports refusals (`streams.kafka.access.connection`); closes half-open ones |
| `AIOKafkaClient.bootstrap` | closes its connection if it is cancelled (as above) |
| `aiokafka.conn.READER_LIMIT` | reads a response in larger pieces |
| `MemoryRecords`, `PartitionRecords` of aiokafka's fetcher | a record that cannot be read costs no other (`streams.kafka.batches`) |
| `gzip_decode`, `snappy_decode`, `lz4_decode`, `zstd_decode` of aiokafka's parsers | limit the decompressed size and the headers of a batch (`streams.kafka.decoding`) |

On the worker's own consumer (`streams.kafka.consumer_thread`): `GroupCoordinator._send_req`, for the time of the
coordinator's last response. `streams.kafka.app` and the consumer and producer subclass Faust's classes.
"""  # noqa: E501

from __future__ import annotations

import importlib
import logging
from functools import partial
from typing import Any, Final

import aiokafka.client
import aiokafka.conn
import aiokafka.consumer.fetcher

from streams.kafka import decoding
from streams.kafka.access.connection import WithoutLogins, closing_bootstrap, open_connection
from streams.kafka.batches import FetchedBatches, ReadableRecords

READ_AHEAD_BYTES: Final = 8 * 1024 * 1024
"""Of a response; with aiokafka's 64 KB the connection would pause for every piece."""
_PARSERS: Final = ("aiokafka.record.default_records", "aiokafka.record._crecords.default_records")


def install() -> None:
    """Patch aiokafka for every client of this process; further calls do nothing."""
    client: Any = aiokafka.client
    if client.create_conn is open_connection:
        return
    client.create_conn = open_connection
    client.AIOKafkaClient.bootstrap = closing_bootstrap(client.AIOKafkaClient.bootstrap)
    logging.getLogger("aiokafka.conn").addFilter(WithoutLogins())
    aiokafka.conn.READER_LIMIT = READ_AHEAD_BYTES
    aiokafka.consumer.fetcher.MemoryRecords = FetchedBatches
    aiokafka.consumer.fetcher.PartitionRecords = ReadableRecords
    for name in _PARSERS:
        try:
            parser = importlib.import_module(name)
        except ImportError:
            continue  # aiokafka without its compiled modules
        for decode in decoding.DECODERS[1:]:
            setattr(parser, decode.__name__, partial(decoding.decode_examined, decode))
