"""Nodes joined rail by rail: equal local ranks on the same leaf switches, a spine above them."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from archmodel.network.dimension import Dimension
from archmodel.network.fabric import SCALE_OUT, Edge, ScaleOut
from archmodel.network.nic import Nic
from archmodel.quantities import Count, Num, PositiveRatio


@SCALE_OUT.register
class RailClos(ScaleOut):
    """A rail-optimised Clos. Up to `nodes_per_leaf` nodes share their leaf switches; beyond, traffic climbs
    to the spine, whose uplinks are narrower than the downlinks by `oversubscription`."""

    kind: Literal["rail_clos"] = "rail_clos"
    oversubscription: PositiveRatio = Field(
        1.0, description="downlink over uplink bandwidth of a leaf switch; 1 is non-blocking"
    )
    nodes_per_leaf: Count | None = Field(
        None,
        description="nodes that share their leaf switches; absent: any group may have to cross the spine",
    )
    counts_tree_bytes: bool = Field(
        False,
        description="whether trees over two or three nodes are priced for what they send; NCCL assumes twice",
    )

    @model_validator(mode="after")
    def _uplinks_add_nothing(self) -> Self:
        if np.any(np.less(self.oversubscription, 1.0)):
            raise ValueError("oversubscription is below 1; a leaf with more uplink than downlink counts as 1")
        return self

    def per_rank(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Num:
        """B/s, per direction, that every rank can send at once to other nodes."""
        line = nic.per_rank(ranks_per_node, gpus_per_node)
        return line if self._in_one_leaf(nodes) else line / self.oversubscription

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Dimension:
        bandwidth = self.per_rank(nodes, ranks_per_node, nic, gpus_per_node)
        return Dimension(
            name="scale_out",
            kind=self.kind,
            size=nodes,
            bandwidth=bandwidth,
            bisection=bandwidth * ((nodes // 2) * ranks_per_node),
            counts_tree_bytes=self.counts_tree_bytes,
            **self.constants(),
        )

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> list[Edge]:
        line = nic.per_rank(ranks_per_node, gpus_per_node)
        down: list[Edge] = [
            (node * ranks_per_node + local, f"leaf {local}", line)
            for node in range(nodes)
            for local in range(ranks_per_node)
        ]
        uplink = line * nodes / (1.0 if self._in_one_leaf(nodes) else self.oversubscription)
        return down + [(f"leaf {local}", "spine", uplink) for local in range(ranks_per_node)]

    def _in_one_leaf(self, nodes: int) -> bool:
        return self.nodes_per_leaf is not None and nodes <= self.nodes_per_leaf
