"""Which order was given which address of an extended public key."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"
branch_labels: Final = None
depends_on: Final = None

TABLES: Final = ("derivations",)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "derivations",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("order_ref", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", "index", name="pk_derivations"),
    )
    op.create_index("ix_derivations_order_ref", "derivations", ["order_ref"])


def downgrade() -> None:
    """Remove it."""
    op.drop_table("derivations")
