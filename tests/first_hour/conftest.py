"""Restores logging after each test, because commands configure it."""

from __future__ import annotations

from tests.streams.conftest import _own_logging

__all__ = ["_own_logging"]  # the fixture
