"""The dashboard *Quality*: one module per group of panels."""
