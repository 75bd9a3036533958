"""The first tables. Once a version is released with them, this revision states them itself and never changes again."""

from alembic import op

from run_specialist.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables and indexes of `schema.py`."""
    metadata.create_all(op.get_bind(), checkfirst=False)
