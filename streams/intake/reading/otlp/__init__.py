"""OTLP in: from the requests that a Collector writes to Kafka to the events that a person would read from them."""
