"""The schemas of a judge's reply, and how it is found and parsed."""
