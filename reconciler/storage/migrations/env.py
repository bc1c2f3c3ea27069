"""What Alembic runs: the revisions, on the connection that `reconciler.storage.schema_version` opened.

One transaction for all of them, on both databases: a migration that fails leaves what was there.
"""

from __future__ import annotations

from alembic import context

from reconciler.storage.stream_tables import stream_metadata
from reconciler.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=[metadata, stream_metadata],
    transactional_ddl=True,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
