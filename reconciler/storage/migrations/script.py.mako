"""${message}."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = ${repr(up_revision)}
down_revision: Final = ${repr(down_revision)}
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the change."""
    ${upgrades if upgrades else "raise NotImplementedError"}


def downgrade() -> None:
    """Take the change back."""
    ${downgrades if downgrades else "raise NotImplementedError"}
