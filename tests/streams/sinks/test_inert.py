"""Foreign label values reach a chat as plain text."""

from __future__ import annotations

from streams.sinks.incidents import inert


def test_a_label_value_calls_nobody_and_links_nowhere() -> None:
    """Slack's mentions and links, and mentions of other chats, are written in signs that mean nothing."""
    assert inert("app=<!channel> <https://evil.example|ok> @all") == (
        "app=‹!channel› ‹https: //evil.example|ok› ＠all"  # noqa: RUF001 - as sent
    )
