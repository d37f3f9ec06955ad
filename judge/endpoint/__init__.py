"""One HTTP call to a judge endpoint."""
