"""The dashboard *Pipeline*: one module per group of panels."""
