"""Limits of an endpoint: concurrency, requests and tokens a minute, turns."""
