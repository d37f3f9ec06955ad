"""HTTP calls to judge endpoints."""
