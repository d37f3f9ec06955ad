"""The meaning of attributes: a table for each family of instrumentations, and the precedence of tables."""
