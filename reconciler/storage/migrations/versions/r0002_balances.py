"""What addresses hold, for the second look."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"
branch_labels: Final = None
depends_on: Final = None

AMOUNT: Final = sa.Text().with_variant(sa.NUMERIC(78, 0), "postgresql")
INSTANT: Final = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
TABLES: Final = ("balances",)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "balances",
        sa.Column("address_key", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("time", INSTANT, nullable=False),
        sa.Column("balance", AMOUNT, nullable=False),
        sa.Column("seen_height", sa.BigInteger(), nullable=False),
        sa.Column("seen_time", INSTANT, nullable=False),
        sa.Column("seen_balance", AMOUNT, nullable=False),
        sa.Column("unexplained", AMOUNT),
        sa.PrimaryKeyConstraint("address_key", "family", "asset", name="pk_balances"),
    )
    op.create_index(
        "ix_balances_unexplained",
        "balances",
        ["chain"],
        postgresql_where=sa.text("unexplained IS NOT NULL"),
        sqlite_where=sa.text("unexplained IS NOT NULL"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("balances")
