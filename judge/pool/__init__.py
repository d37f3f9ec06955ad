"""Endpoint pool: choice of the endpoint, retries, breakers, limits."""
