"""The command line: one module a command. What is heavy is imported inside the command that needs it."""
