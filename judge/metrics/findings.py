"""Findings of verification: corrections lower a score, suspicions only in mode `strict`."""

from __future__ import annotations

from judge.metric import Verification
from judge.text.normal import quoted
from schemas import Correction, CorrectionKind, Suspicion, SuspicionKind

MAX_NAMED = 8
"""Limit of quotations listed in one repair turn."""


class Findings:
    """Collects findings while one verdict is verified.

    Args:
        verification: Suspicions are recorded (`marks`), treated as corrections (`strict`) or not computed
            (`off`).
    """

    def __init__(self, verification: Verification) -> None:
        self._verification = verification
        self._corrections: list[Correction] = []
        self._suspicions: list[Suspicion] = []
        self._not_found: list[str] = []

    @property
    def looks_for_suspicions(self) -> bool:
        """Whether suspicions are used."""
        return self._verification != "off"

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """The corrections."""
        return tuple(self._corrections)

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """The suspicions."""
        return tuple(self._suspicions)

    @property
    def objection(self) -> str | None:
        """Message to the judge about quotations that are not in their text; None if all were found."""
        if not self._not_found:
            return None
        named = "; ".join(self._not_found[:MAX_NAMED])
        more = len(self._not_found) - MAX_NAMED
        return (
            "these quotations are not in their text: "
            f"{named}{f'; and {more} more' if more > 0 else ''}. Copy each character by "
            "character from the text, in one piece, or correct what rests on it"
        )

    def correct(self, kind: CorrectionKind, detail: str) -> None:
        """Record a correction."""
        self._corrections.append(Correction(kind=kind, detail=detail))

    def suspect(self, kind: SuspicionKind, detail: str) -> bool:
        """Record a suspicion.

        Returns:
            Whether it lowers the score.
        """
        if self._verification == "strict":
            self.correct(kind, detail)
            return True
        if self._verification == "marks":
            self._suspicions.append(Suspicion(kind=kind, detail=detail))
        return False

    def not_found(self, where: str, quotation: str | None, text: str) -> None:
        """Record a quotation that is not in its text, for the repair turn.

        Args:
            where: Path in the reply.
            quotation: The judge's quotation; None if missing.
            text: The quoted text's name, such as "the answer".
        """
        self._not_found.append(
            f"{where}: no words of {text} are given"
            if quotation is None
            else f"{where} {quoted(quotation)} is not in {text}"
        )
