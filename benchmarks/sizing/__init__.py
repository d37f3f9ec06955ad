"""Partitions, workers, tokens and cost from traffic, rates, latency and prices (`docs/scaling.md`)."""
