"""A part of the real world that a test needs and that may be missing on this machine."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(part: str, how: str) -> NoReturn:
    """A missing part fails in CI, where everything must be there, and skips elsewhere."""
    sentence = f"{part} is missing: {how}"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
