"""Pages that show the verdict store: read only, without external parts, behind whatever guards the port."""
