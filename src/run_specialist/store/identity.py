"""Constants that identify a store; imports no database library."""

VERSION = 1
"""Version of the tables: the number of revisions in `migrations`."""
APPLICATION_ID = 0x52537031
"""SQLite `application_id` of the stores; also the advisory lock for their creation on PostgreSQL."""
NAMESPACE = "run_specialist"
"""PostgreSQL schema of the tables; avoids conflicts with other tables named `runs`."""
