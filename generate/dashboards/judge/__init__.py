"""The dashboard *Judge*: a module for each group of its panels."""
