"""What a judge is to fill in, and how its reply is found and read."""
