"""What Alembic runs: the revisions that are missing, in the transaction of the connection that it is handed."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
