"""The dashboard *Quality*: a module for each group of its panels."""
