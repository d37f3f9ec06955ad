"""Human labels on verdicts: queue, page, import and export."""
