"""Errors that end a command.

CommandError           exit code 1: the work failed
└── BadUsageError      exit code 2: the call or the configuration must change first
"""

from __future__ import annotations


class CommandError(Exception):
    """The command failed; the message is printed after `error:`."""

    exit_code = 1


class BadUsageError(CommandError):
    """Nothing was tried: an argument or the configuration is invalid."""

    exit_code = 2
