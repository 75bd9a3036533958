"""Where runs are kept: an SQLite file or a PostgreSQL database."""
