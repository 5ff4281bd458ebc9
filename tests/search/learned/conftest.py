"""Tables and sets that the tests share."""

from __future__ import annotations

import pytest

from archmodel.search.learned.measurements import TableSets
from archmodel.search.learned.tables import TableFeatures
from tests.search.learned.sets import make_sets, make_tables


@pytest.fixture(scope="session")
def tables() -> TableFeatures:
    return make_tables(40)


@pytest.fixture(scope="session")
def sets(tables: TableFeatures) -> TableSets:
    return make_sets(tables, 150)
