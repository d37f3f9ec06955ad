"""A single-node Kafka broker in memory, for the demo and the tests.

It speaks the Kafka protocol on loopback and is gone when its process ends: no persistence, no
replication, no compaction, no transactions, no TLS and no SASL, by design. It needs the standard library
alone.
"""
