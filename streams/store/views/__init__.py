"""What is read from the store: the explorer, incidents, the review, exports."""
