"""Read-only pages of the verdict store, without external assets, behind the port's access control."""
