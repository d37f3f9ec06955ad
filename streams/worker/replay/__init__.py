"""Judge past events again, separately from the live stream."""
