"""The dashboard *Pipeline*: a module for each group of its panels."""
