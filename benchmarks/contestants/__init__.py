"""Programs that are measured against each other: each gets a plan as JSON and prints what it took as JSON."""
