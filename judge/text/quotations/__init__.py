"""Find quotations in texts, exactly or approximately."""
