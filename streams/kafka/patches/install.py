"""Install the patches that `streams.kafka.patches` lists, when the first client is created."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any, Final

import aiokafka.client
import aiokafka.conn
import aiokafka.consumer.fetcher

from streams.kafka.access.connections import WithoutLogins, closing_bootstrap, open_connection
from streams.kafka.patches import codecs
from streams.kafka.patches.crowded import examined
from streams.kafka.patches.fetched import FetchedBatches

READ_AHEAD_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a response that are buffered before reading pauses. A response is always read completely; with
aiokafka's 64 KB the connection would pause for every piece.
"""
_PARSERS: Final[dict[str, Callable[[Callable[[Any], bytes]], Callable[[Any], bytes]]]] = {
    "aiokafka.record.default_records": examined,
    "aiokafka.record.legacy_records": lambda decode: decode,
    "aiokafka.record._crecords.default_records": examined,
    "aiokafka.record._crecords.legacy_records": lambda decode: decode,
}
"""Parsers, and the wrapper of their decompression functions: records have headers since Kafka 0.11."""
_DECODERS: Final = ("gzip_decode", "snappy_decode", "lz4_decode", "zstd_decode")


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
    for name, made in _PARSERS.items():
        try:
            parser = importlib.import_module(name)
        except ImportError:
            continue  # aiokafka without its compiled modules
        for decoder in _DECODERS:
            if hasattr(parser, decoder):
                setattr(parser, decoder, made(getattr(codecs, decoder)))
