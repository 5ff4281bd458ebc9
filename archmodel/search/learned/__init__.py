"""A learned cost of a set of tables in one fused kernel (AutoShard, KDD 2022, arXiv 2208.06399), and planning with it.

tables = read_tables("tables.csv")                       # what each table is
sets = read_measurements("measurements.csv", tables)     # what sets of them took
found = fit(tables, sets, seed=0)                        # found.model, found.scores
placed = place(found.model, tables, ranks=8, memory=..., limits=...)
"""

from archmodel.search.learned.fit import Fitted, fit
from archmodel.search.learned.measurements import TableSets, read_measurements
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import Placed, place
from archmodel.search.learned.tables import TableFeatures, read_tables

__all__ = [
    "Fitted",
    "Placed",
    "SetCost",
    "TableFeatures",
    "TableSets",
    "fit",
    "place",
    "read_measurements",
    "read_tables",
]
