"""What happens to a record: skipped, set aside, or made into tasks."""
