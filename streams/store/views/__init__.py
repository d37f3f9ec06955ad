"""Readers of the store: the explorer, incidents, the review, exports."""
