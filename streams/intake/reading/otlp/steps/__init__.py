"""What one span says, read with the tables of its families into words that are the same for all of them."""
