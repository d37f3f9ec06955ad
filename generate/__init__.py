"""Generators of committed files; not distributed."""
