"""Reads pages and their assets from a package; all pages share one head."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

_FRAME: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{style}">
<script type="module" src="{script}"></script>
</head>
<body>
<a class="skip" href="{skip}">{skip_text}</a>
<header>
<h1>judgestream</h1>
{rest}</body>
</html>
"""


def load_assets(package: str, files: Mapping[str, tuple[str, str]]) -> Mapping[str, tuple[str, str]]:
    """Read the files of a page.

    The first line of an HTML file has title, style sheet, script, and the target and text of the link that
    skips the header, separated by " | "; the content after the heading follows.

    Args:
        package: The package of the files.
        files: By path, file name and media type.

    Returns:
        By path, text and media type.
    """
    folder = resources.files(package)
    texts = {
        path: (folder.joinpath(name).read_text(encoding="utf-8"), kind)
        for path, (name, kind) in files.items()
    }
    return {
        path: (_framed(text) if kind == "text/html" else text, kind) for path, (text, kind) in texts.items()
    }


def _framed(text: str) -> str:
    first, _, rest = text.partition("\n")
    title, style, script, skip, skip_text = first.split(" | ")
    return _FRAME.format(title=title, style=style, script=script, skip=skip, skip_text=skip_text, rest=rest)
