"""Detection of sentences that make a claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.claims import claiming_parts, claims_nothing


@pytest.mark.parametrize(
    "sentence",
    [
        "Hi there!", "Thanks for reaching out.", "Here is what I found:", "## Overview", "**Summary**",
        "Would you like more?",
        "I hope this helps.", "The provided pages do not mention the price.",
        "Let me know if anything is unclear.", "...", "",
        "Gerne helfe ich weiter.", "Bei weiteren Fragen melden Sie sich.",
        "Die Dokumente enthalten keine Angaben dazu.",
        "Bonjour !", "N'h\u00e9sitez pas \u00e0 demander.", "\u00a1Claro!", "Espero que te sirva.",
        "Merhaba!", "Umar\u0131m yard\u0131mc\u0131 olur.",
        "This is not medical advice.", "This information is for general purposes only.",
        "Best regards, the team", "Enjoy your day!", "Das ersetzt keine \u00e4rztliche Beratung.",
        "Gute Besserung!", "Ceci ne constitue pas un avis m\u00e9dical.",
        "\u00a1Que tengas un buen d\u00eda!", "Esto no constituye un consejo m\u00e9dico.",
        "Ge\u00e7mi\u015f olsun!", "Bu bilgi t\u0131bbi tavsiye de\u011fildir.",
        "\u0647\u0630\u0647 \u0644\u064a\u0633\u062a \u0646\u0635\u064a\u062d\u0629.",
        "\u0645\u0631\u062d\u0628\u0627",
        "\u0647\u0644 \u062a\u0631\u064a\u062f \u0627\u0644\u0645\u0632\u064a\u062f\u061f",
    ],
)  # fmt: skip
def test_parts_without_a_claim(sentence: str) -> None:
    """Greetings, headings, introductions, questions, offers and disclaimers are no claims."""
    assert claims_nothing(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The tower was painted blue in 1950.", "Water boils at 100 degrees.",
        "The council rejected the plan twice.",
        "You can cancel within 30 days.", "Sure, it opens at 9 and closes at 17 on weekdays.",
        "Der Turm wurde 1950 blau gestrichen.",
        "This is no longer produced in Europe.", "This information is kept for ten years.",
        "Das ist keine gute Wahl bei Frost.",
        "La tour a \u00e9t\u00e9 peinte en bleu en 1950.", "La torre fue pintada de azul en 1950.",
        "Kule 1950 y\u0131l\u0131nda maviye boyand\u0131.",
        (
                "\u062a\u0645 \u0637\u0644\u0627\u0621 \u0627\u0644\u0628\u0631\u062c "
                "\u0628\u0627\u0644\u0623\u0632\u0631\u0642 \u0639\u0627\u0645 1950."
            ),
            "\u305d\u306e\u5854\u306f1950\u5e74\u306b\u9752\u304f\u5857\u3089\u308c\u307e\u3057\u305f\u3002",
    ],
)  # fmt: skip
def test_parts_with_a_claim(sentence: str) -> None:
    assert not claims_nothing(sentence)


@given(st.text(max_size=80))
def test_parts_are_stretches_of_the_text(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end in claiming_parts(text))
