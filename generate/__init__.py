"""The committed files that follow from the code: written and checked by one command; not distributed."""
