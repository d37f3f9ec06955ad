"""What becomes of a record: skipped, set aside, or made into tasks."""
