"""Extensions of judgestream from a package of its own."""
