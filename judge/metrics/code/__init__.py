"""Metrics decided by code, without a judge."""
