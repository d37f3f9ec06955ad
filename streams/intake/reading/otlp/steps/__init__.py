"""One span, read by the tables of its families into one form for all of them."""
