"""Schemas and parsing of a judge's reply."""
