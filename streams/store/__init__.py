"""A copy of results, their texts, alerts and labels in one SQLite file, to be read.

The truth stays in Kafka.
"""
