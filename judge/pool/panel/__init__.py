"""Several verdicts on one answer, and the one that is published."""
