"""The question of the tests of config files."""

QUESTION = ("what", "do", "owls", "eat?")
