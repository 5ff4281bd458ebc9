"""Near-memory processing: units beside DRAM ranks that sum embedding rows and send only the sums to the host."""

from archmodel.memory.nmp.balance import most_loaded
from archmodel.memory.nmp.chameleon import DimmNmp
from archmodel.memory.nmp.column_split import ColumnNmp
from archmodel.memory.nmp.host import HostGather
from archmodel.memory.nmp.rank_cache import RankCache
from archmodel.memory.nmp.rank_nmp import RankNmp
from archmodel.memory.nmp.unit import NMP, NmpCost, NmpCounts, NmpUnit
from archmodel.memory.nmp.work import PooledLookups

__all__ = [
    "NMP",
    "ColumnNmp",
    "DimmNmp",
    "HostGather",
    "NmpCost",
    "NmpCounts",
    "NmpUnit",
    "PooledLookups",
    "RankCache",
    "RankNmp",
    "most_loaded",
]
