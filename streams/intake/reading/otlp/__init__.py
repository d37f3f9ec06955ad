"""OTLP in: from the requests that a Collector writes to Kafka to the events that they hold."""
