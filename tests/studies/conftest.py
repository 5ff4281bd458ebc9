"""Studies import the helper beside them, as they do when run as scripts."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDIES = Path(__file__).parents[2] / "studies"

if str(STUDIES) not in sys.path:
    sys.path.insert(0, str(STUDIES))


@pytest.fixture(scope="module")
def study(request: pytest.FixtureRequest) -> ModuleType:
    """The study that the test module is named after."""
    return importlib.import_module(request.module.__name__.rpartition("test_")[2])
