"""A unit at every rank (RecNMP, arXiv 1912.12953)."""

from __future__ import annotations

from typing import Literal

from archmodel.memory.nmp.unit import NMP, NmpUnit


@NMP.register
class RankNmp(NmpUnit):
    """Whole rows lie on ranks by chance or by colour; each rank sums its rows, the DIMM adds the sums."""

    kind: Literal["rank_nmp"] = "rank_nmp"
