"""A single-node Kafka broker in memory, for the demo and the tests.

It implements the Kafka protocol on loopback and loses its data when its process ends: no persistence, no
replication, no compaction, no transactions, no TLS and no SASL, by design. Requests and responses are read
and written by aiokafka's classes.
"""
