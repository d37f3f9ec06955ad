"""Every kind of correction and suspicion has a sentence."""

from __future__ import annotations

from typing import get_args

from schemas.findings import MEANINGS, SUSPICION_KINDS, ContradictionKind, CorrectionKind


def test_each_kind_has_one_sentence() -> None:
    kinds = {kind for part in get_args(CorrectionKind) for kind in get_args(part)}
    assert kinds == set(MEANINGS)
    assert kinds > {*SUSPICION_KINDS, *get_args(ContradictionKind)}
    assert all(text[0].isupper() and text.endswith(".") for text in MEANINGS.values())
