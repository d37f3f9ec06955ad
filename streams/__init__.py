"""Judgestream in motion: Kafka in, Kafka out. Importing this package starts nothing."""
