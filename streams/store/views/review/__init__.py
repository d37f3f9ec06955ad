"""What people say of verdicts: whom to ask about which, and the one place that writes it down."""
