"""Connections and logins to a broker, and why one fails."""
