"""Commands that run in the test's own process set up logging as a process of theirs would: put it back."""

from __future__ import annotations

from tests.streams.cli.conftest import _own_logging

__all__ = ["_own_logging"]  # the fixture
