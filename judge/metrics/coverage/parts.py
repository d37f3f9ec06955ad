"""Long references in parts: each is judged by itself, and the lists are merged exactly.

A judge lists every statement of the reference. Of a long one that is more than a reply may have, and a reply
that is cut is lost. So the reference is split at the ends of sentences, the whole answer is compared with
each part, and the items of all parts are verified and counted together against the whole reference: the score
is that of the formula over all items, no mean of scores.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.metrics.coverage.items import CoverageReply, ListedItem, ListedOrganization
from judge.metrics.replies.structured import read_evidence
from judge.text.index import normalise
from judge.text.sentences import sentences

PART_BYTES = 3000
"""A part has no more in UTF-8, but for a single sentence: about 450 words, of which a judge lists some 40
items."""


def split_reference(reference: str, *, parts: int | None = None) -> tuple[str, ...]:
    """Split a reference into parts of about the same size, at the ends of sentences.

    Args:
        reference: The reference.
        parts: How many, at most; None: as many as keep each within `PART_BYTES`.

    Returns:
        Stretches of the reference in order; one where it is short, or a single sentence.
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
        # A sentence goes to the part in which most of it lies.
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
    """Put the lists of several parts together.

    An item that two parts list alike is listed once. The organization is similar where it is so in more than
    half of the parts.

    Args:
        replies: The judge's replies to the parts, in order; each holds.

    Returns:
        One reply with all items.

    Raises:
        InvalidVerdictError: One of them is not a list of items.
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
    """The items of all parts; what a later part lists as an earlier one did is left out."""
    kept: list[ListedItem] = []
    known: set[tuple[str, bool]] = set()
    for items in lists:
        keys = [(normalise(item.item), item.matched) for item in items]
        kept += [item for item, key in zip(items, keys, strict=True) if key not in known]
        known.update(keys)
    return kept
