"""What a newcomer meets in the first hour: the commands as they are typed, and what they say."""
