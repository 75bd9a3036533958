"""Store runs in an SQLite file or a PostgreSQL database."""
