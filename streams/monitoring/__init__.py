"""Whether scores fell: from results to estimates and alerts."""
