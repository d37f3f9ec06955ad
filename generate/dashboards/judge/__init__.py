"""The dashboard *Judge*: one module per group of panels."""
