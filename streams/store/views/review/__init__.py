"""Human labels on verdicts: the queue, and the one place that writes."""
