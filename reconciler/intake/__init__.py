"""The intake: applies every lane that the group gives us, and sweeps what coverage made due.

Reads `orders` and `transfers.<chain>`; writes through services alone. Never talks to a node or the shop.
"""

from reconciler.intake.intake import Intake, IntakeTerms

__all__ = ["Intake", "IntakeTerms"]
