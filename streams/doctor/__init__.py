"""What a worker needs, tried piece by piece, without changing anything."""
