"""Provable contradictions of two sentences: numbers, polarity, yes and no."""
