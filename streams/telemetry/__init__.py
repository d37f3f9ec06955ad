"""What is measured and logged: names, values, and what is masked."""
