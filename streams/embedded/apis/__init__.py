"""The answers to requests: data, groups and topics."""
