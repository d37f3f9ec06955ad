"""Consumer groups: members, generations and the coordinator."""
