"""Faust's Kafka driver with commits in order, push-down of skips, and room per topic.

What differs from the stock driver, and why:

- Offsets are committed up to the first unfinished record only (`streams.kafka.transport.delivery`). The stock
  bookkeeping starts from the first acknowledged record, so that a group without committed offsets commits
  past work in flight.
- A predicate sees the raw records of the events topic before they become Faust messages; a record that it
  turns down costs what fetching costs.
- A topic is asked for records only while it has room, counted in records and in bytes. What was fetched
  beyond the room waits here. Nothing ever blocks on a full stream queue, so one slow stage neither stops the
  others nor keeps the consumer from polling.
- A message belongs to the book that was open when it was delivered. After a rebalance or a seek there is a
  new book, and an acknowledgement that comes late changes nothing.
- A commit or a fetch that fails in a way that may pass is retried; it does not stop the worker.
- A producer whose sequence a refused batch has broken is replaced.

`plan` is what an application asks for, `room` and `delivery` are the accounting, `consumer` reads on the
application's event loop and `consumer_thread` on one of its own, `producer` writes.
"""

from __future__ import annotations

from streams.kafka.transport.consumer import Consumer
from streams.kafka.transport.driver import Transport
from streams.kafka.transport.plan import Plan, Predicate
from streams.kafka.transport.producer import Producer
from streams.kafka.transport.room import Room

__all__ = ["Consumer", "Plan", "Predicate", "Producer", "Room", "Transport"]
