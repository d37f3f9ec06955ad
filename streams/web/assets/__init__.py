"""Styles and scripts that all pages share."""
