"""What is committed and follows from the code: written and checked by one command, and no part of the distribution."""
