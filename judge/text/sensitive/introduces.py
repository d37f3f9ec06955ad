"""Words before a number that identify it as a version, section, product or order. Pure."""

from __future__ import annotations

import re
from typing import Final

LOOK_BACK: Final = 28
_END: Final = r"(?:[ _-]?(?:no|nr|num|number|code|id|key)\b)?[\"']?[.:=# ]{0,3}$"
_VERSION: Final = re.compile(
    r"(?:\b(?:version|ver|v|rev|release|section|sec|chapter|art|article|clause|paragraph|table|figure|oid|ec|firmware"
    r"|driver|build|kernel|database|patch|bios|oracle|chrome|android"
    r"|(?:upgrade|update)[ds]?(?: \w{1,12})?(?: to)?)|§)" + _END,
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    r"(?:\b(?:zip|plz|cep|postcode|postal|sku|ean|gtin|upc|isbn|issn|ismn|asin|doi|pmid|orcid|arxiv|order|bestell(?:ung|nummer)"
    r"|invoice|rechnung|ticket|case|part|item|art(?:ikel|icle)?|model|serial|lot|batch|ref(?:erence)?|tracking|po|iso|din|cas"
    r"|patent|docket|room|flight|chr\w{1,2}|commit|revision|page|pp?|vol(?:ume)?)|s/n)" + _END,
    re.IGNORECASE,
)


def a_version(text: str, place: int) -> bool:
    """Return whether the number at an offset is a version, a section or similar."""
    return _VERSION.search(text[max(place - LOOK_BACK, 0) : place]) is not None


def a_reference(text: str, place: int) -> bool:
    """Return whether the number at an offset is an order, a book, a place or similar."""
    return _REFERENCE.search(text[max(place - LOOK_BACK, 0) : place]) is not None
