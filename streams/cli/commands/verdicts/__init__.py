"""Commands that read verdicts from the store."""
