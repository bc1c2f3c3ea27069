"""A setting that nobody reads is a lie to the one who sets it."""

import re
from pathlib import Path

import msgspec

from reconciler.config.reading import settings_paths
from reconciler.config.tables import SettingsFile

ROOT = Path(__file__).parents[2]
#: Where settings are defined and checked, which is not the same as being used.
DEFINED = ROOT / "reconciler" / "config" / "tables.py"


def test_every_setting_is_read_somewhere():
    code = "\n".join(
        path.read_text() for path in sorted((ROOT / "reconciler").rglob("*.py")) if path != DEFINED
    )
    paths = settings_paths(msgspec.inspect.type_info(SettingsFile))
    unread = {
        path
        for path in paths
        if not re.search(rf"\.{path.rpartition('.')[2].removesuffix('[]')}\b", code)
    }
    assert not unread
