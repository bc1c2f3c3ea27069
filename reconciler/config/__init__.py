"""Settings: one TOML file, secrets from the environment, impossible ones refused with a sentence.

Reads the file, the environment and the catalogue; writes nothing. Knows nothing of orders that are
already placed: their terms are frozen, and no setting reaches them.
"""

from reconciler.config.reading import SettingsError
from reconciler.config.secrets import Secret
from reconciler.config.settings import Settings, load_settings

__all__ = ["Secret", "Settings", "SettingsError", "load_settings"]
