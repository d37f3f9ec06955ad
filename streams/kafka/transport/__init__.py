"""Faust's Kafka driver with commits in order, push-down of skips, and room per topic.

Differences from the stock driver:

- Offsets are committed only up to the first unfinished record (`streams.kafka.transport.delivery`). The stock
  driver starts from the first acknowledged record, so a group without committed offsets commits past records
  in flight.
- A predicate filters the raw records of the events topic before they become Faust messages, so a skipped
  record costs only its fetch.
- A topic is fetched only while it has room, counted in records and bytes; records beyond the room are parked.
  Delivery never blocks on a full stream queue, so a slow stage neither stops the others nor the polling.
- A message belongs to the offset book that was open at its delivery. A rebalance or seek opens a new book, so
  late acknowledgements have no effect.
- A commit or fetch that fails with a retriable error is retried; the worker continues.
- A producer is replaced if a rejected batch has broken its sequence.

`plan` holds the application's settings, `room` and `delivery` the accounting; `consumer` reads on the
application's event loop, `consumer_thread` on its own; `producer` writes.
"""

from __future__ import annotations

from streams.kafka.transport.consumer import Consumer
from streams.kafka.transport.driver import Transport
from streams.kafka.transport.plan import Plan, Predicate
from streams.kafka.transport.producer import Producer
from streams.kafka.transport.room import Room

__all__ = ["Consumer", "Plan", "Predicate", "Producer", "Room", "Transport"]
