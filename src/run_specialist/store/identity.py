"""What a store is known by; no database library is needed to ask."""

VERSION = 2
"""Of the tables; each revision under `migrations` is one more."""
APPLICATION_ID = 0x52537031
"""What tells our SQLite files from all others."""
NAMESPACE = "run_specialist"
"""The schema that holds the tables in a PostgreSQL database; others have tables named `runs`, too."""
