"""Faults against Apache Kafka with real worker processes, and a checker that reads the topics alone."""
