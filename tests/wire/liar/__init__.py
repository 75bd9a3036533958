"""A server that lies: it stands before a strict simulator, and spoils the replies that it is aimed at."""
