"""Split long references into parts, and merge the judge's lists exactly.

A judge lists every statement of the reference; for a long one the reply would exceed its limit and be
truncated. So the reference is split at sentence ends and the whole answer is compared with each part. The
items of all parts are verified and counted together against the whole reference: the formula is applied to
all items, not averaged over parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.metrics.coverage.items import CoverageReply, ListedItem, ListedOrganization
from judge.metrics.replies.structured import read_evidence
from judge.text.normal import normalise
from judge.text.sentences import sentences

PART_BYTES = 3000
"""Limit of a part in UTF-8 bytes, except for a single long sentence: about 450 words, for which a judge lists
some 40 items."""


def split_reference(reference: str, *, parts: int | None = None) -> tuple[str, ...]:
    """Split a reference into parts of about the same size, at the ends of sentences.

    Args:
        reference: The reference.
        parts: Maximum number of parts; None: as many as keep each within `PART_BYTES`.

    Returns:
        The parts in order; one if the reference is short or a single sentence.
    """
    size = len(reference.encode("utf-8", "surrogatepass"))
    wanted = -(-size // PART_BYTES) if parts is None else parts
    places = sentences(reference)
    if wanted < 2 or len(places) < 2:
        return (reference,)
    ends: list[int] = []
    reached = 0.0
    for place, (start, end) in enumerate(places):
        length = len(reference[start:end].encode("utf-8", "surrogatepass"))
        # A sentence belongs to the part that has most of it.
        if ends and place and (reached + length / 2) * wanted > size * len(ends):
            ends.append(end)
        elif ends:
            ends[-1] = end
        else:
            ends.append(end)
        reached += length
    starts = [0, *ends[:-1]]
    return tuple(reference[start:end].strip() for start, end in zip(starts, ends, strict=True))


def merge_replies(replies: Sequence[str]) -> str:
    """Merge the lists of several parts.

    An item of several parts counts once. The organization is similar if it is in more than half of the parts.

    Args:
        replies: The judge's valid replies to the parts, in order.

    Returns:
        One reply with all items.

    Raises:
        InvalidVerdictError: A reply is not a list of items.
    """
    read = [read_evidence(CoverageReply, reply, key="facts") for reply in replies]
    similar = sum(one.organization.similar for one in read)
    said = f"Similar in {similar} of {len(read)} parts of the reference."
    return CoverageReply(
        facts=_together([one.facts for one in read]),
        conclusions=_together([one.conclusions for one in read]),
        terms=_together([one.terms for one in read]),
        organization=ListedOrganization(justification=said, similar=2 * similar > len(read)),
    ).model_dump_json()


def _together(lists: Sequence[Sequence[ListedItem]]) -> list[ListedItem]:
    """Return the items of all parts, without those that an earlier part already lists."""
    kept: list[ListedItem] = []
    known: set[tuple[str, bool]] = set()
    for items in lists:
        keys = [(normalise(item.item), item.matched) for item in items]
        kept += [item for item, key in zip(items, keys, strict=True) if key not in known]
        known.update(keys)
    return kept
