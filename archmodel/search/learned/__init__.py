"""A learned cost of a set of tables in one fused kernel (AutoShard, KDD 2022, arXiv 2208.06399), and planning with it.

tables = read_tables("tables.csv")                       # what each table is
sets = read_measurements("measurements.csv", tables)     # what sets of them took
found = fit(tables, sets, seed=0)                        # found.model, found.scores
placed = place(found.model, tables, ranks=8, memory=..., limits=...)
cut = place_cut(found.model, tables, ranks=8, memory=..., limits=..., least=16)     # columns may be cut
"""

from archmodel.search.learned.cuts import Cut, place_cut
from archmodel.search.learned.fit import Fitted, fit
from archmodel.search.learned.measurements import TableSets, read_measurements
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import Placed, place
from archmodel.search.learned.tables import TableFeatures, read_tables

__all__ = [
    "Cut",
    "Fitted",
    "Placed",
    "SetCost",
    "TableFeatures",
    "TableSets",
    "fit",
    "place",
    "place_cut",
    "read_measurements",
    "read_tables",
]
