"""The service: Kafka in, Kafka out. Importing this package starts nothing."""
