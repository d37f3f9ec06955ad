"""Request handlers for data, groups and topics."""
