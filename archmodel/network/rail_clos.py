"""Nodes joined rail by rail: equal local ranks on the same leaf switches, a spine above them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from archmodel.network.dimension import Dimension
from archmodel.network.fabric import SCALE_OUT, ScaleOut
from archmodel.network.graph import Edge
from archmodel.network.nic import Nic, needed
from archmodel.network.shape import Shape, Stage, Switches
from archmodel.network.switch import not_below_one
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
        not_below_one(self.oversubscription, "a leaf with more uplink than downlink counts as 1")
        return self

    def per_rank(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Num:
        """B/s, per direction, that every rank can send at once to other nodes."""
        line = nic.per_rank(ranks_per_node, gpus_per_node)
        return line if self._in_one_leaf(nodes) else line / self.oversubscription

    def shape(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Shape:
        """One rail. Where it is unknown which nodes share a leaf, every message may have to cross the spine."""
        line = nic.per_rank(ranks_per_node, gpus_per_node)
        if self._in_one_leaf(nodes):
            return Switches(nodes, line, self.link_latency)
        leaf = self.nodes_per_leaf
        stage = Stage(leaf or 1, line * (leaf or 1) / self.oversubscription)
        return Switches(nodes, line, self.link_latency, stages=(stage,))

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        nic = needed(nic, nodes)
        bandwidth = self.per_rank(nodes, ranks_per_node, nic, gpus_per_node)
        shape = self.shape(nodes, ranks_per_node, nic, gpus_per_node)
        return Dimension(
            name="scale_out",
            kind=self.kind,
            size=nodes,
            bandwidth=bandwidth,
            bisection=bandwidth * ((nodes // 2) * ranks_per_node),
            latency=self.step_latency(shape),
            counts_tree_bytes=self.counts_tree_bytes,
            level="scale_out",
            shape=shape,
            **self.constants(),
        )

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        line = needed(nic, nodes).per_rank(ranks_per_node, gpus_per_node)
        leaf = self.nodes_per_leaf or nodes
        down: list[Edge] = []
        up: list[Edge] = []
        for local in range(ranks_per_node):
            for first in range(0, nodes, leaf):
                members = range(first, min(first + leaf, nodes))
                name = f"leaf {local}" if leaf >= nodes else f"leaf {local}.{first // leaf}"
                down += [Edge(node * ranks_per_node + local, name, line, self.link_latency) for node in members]
                wide = line * len(members) / (1.0 if self._in_one_leaf(nodes) else self.oversubscription)
                up.append(Edge(name, "spine", wide, self.link_latency))
        return down + up

    def _in_one_leaf(self, nodes: int) -> bool:
        return self.nodes_per_leaf is not None and nodes <= self.nodes_per_leaf
