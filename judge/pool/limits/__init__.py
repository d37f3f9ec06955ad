"""Limits of an endpoint: concurrency, requests and tokens per minute, queue."""
