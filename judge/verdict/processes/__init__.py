"""Code that is not trusted to end, in processes of its own."""
