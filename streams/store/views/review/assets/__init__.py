"""Files of the review page; no code."""
