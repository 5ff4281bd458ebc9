"""Levels of switches with uplinks that may be narrower than what comes up: among GPUs, or among nodes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal, Self

from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, ScaleOut, ScaleUp, rates_of
from archmodel.network.graph import Edge
from archmodel.network.nic import Nic, needed
from archmodel.network.shape import Shape, Stage, Switches
from archmodel.network.switch import not_below_one
from archmodel.quantities import Count, Num, PositiveBandwidth, PositiveRatio, Seconds


class Levels(Component):
    """What both trees say about their switches. The last level is one switch, or parallel ones that add up."""

    radix: tuple[Count, ...] = Field(..., min_length=1, description="ports down of a switch, level by level")
    oversubscription: tuple[PositiveRatio, ...] = Field(
        (), description="of every level but the last: bandwidth down over bandwidth up; absent: 1, non-blocking"
    )

    @model_validator(mode="after")
    def _levels_agree(self) -> Self:
        wanted, given = len(self.radix) - 1, len(self.oversubscription)
        if given not in (0, wanted):
            raise ValueError(f"oversubscription has {given} values; {wanted + 1} levels have {wanted} with uplinks")
        for ratio in self.oversubscription:
            not_below_one(ratio, "a switch with more uplink than downlink counts as 1")
        return self

    def stages(self, line: Num) -> tuple[Stage, ...]:
        """Uplinks over leaves whose members have links of `line`."""
        stages: list[Stage] = []
        group, wide = 1, line
        for level, ports in enumerate(self.radix[:-1]):
            group *= ports
            wide = wide * ports / (self.oversubscription[level] if self.oversubscription else 1.0)
            stages.append(Stage(group, wide))
        return tuple(stages)

    def check_places(self, members: int, what: str) -> None:
        """Raises `TopologyError` for more members than the switches have ports."""
        places = prod(self.radix)
        if members > places:
            tree = " x ".join(map(str, self.radix))
            raise TopologyError(f"{members} {what} do not fit a fat tree of {tree} = {places}")

    def uplinks(self, members: int, line: Num, latency: Seconds, name: Callable[[int, int], str]) -> list[Edge]:
        """Links between switches under which there are members."""
        edges = []
        below = -(-members // self.radix[0])
        for level, stage in enumerate(self.stages(line)):
            ports = self.radix[level + 1]
            edges += [
                Edge(name(level, number), name(level + 1, number // ports), stage.bandwidth, latency)
                for number in range(below)
            ]
            below = -(-below // ports)
        return edges


def _named(level: int, number: int) -> str:
    return f"switch {level + 1}.{number}"


@SCALE_UP.register
class FatTree(Levels, ScaleUp):
    """Switches above GPUs: `radix` GPUs at each leaf, so many leaves at each switch above, and so on."""

    kind: Literal["fat_tree"] = "fat_tree"
    bandwidth: PositiveBandwidth = Field(..., description="link of one GPU to its leaf switch, per direction")

    def check_size(self, ranks: int) -> None:
        super().check_size(ranks)
        self.check_places(ranks, "GPUs")

    def shape(self, ranks: int) -> Shape:
        return Switches(ranks, self.bandwidth, self.link_latency, stages=self.stages(self.bandwidth))

    def edges(self, ranks: int) -> list[Edge]:
        down = [Edge(gpu, _named(0, gpu // self.radix[0]), self.bandwidth, self.link_latency) for gpu in range(ranks)]
        return down + self.uplinks(ranks, self.bandwidth, self.link_latency, _named)


@SCALE_OUT.register
class NodeTree(Levels, ScaleOut):
    """Switches above nodes: all interfaces of `radix` nodes at each leaf (a leaf here may be several parallel
    switches, one for each rail), so many leaves at each switch above, and so on."""

    kind: Literal["fat_tree"] = "fat_tree"

    def shape(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Shape:
        """Seen by the ranks of equal local index; those of a node share the uplinks evenly."""
        line = nic.per_rank(ranks_per_node, gpus_per_node)
        return Switches(nodes, line, self.link_latency, stages=self.stages(line))

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        self.check_places(nodes, "nodes")
        shape = self.shape(nodes, ranks_per_node, needed(nic, nodes), gpus_per_node)
        rates = rates_of(shape)
        return Dimension(
            name="scale_out",
            kind=self.kind,
            size=nodes,
            bandwidth=rates.injection,
            bisection=rates.bisection * ranks_per_node,
            ring_share=rates.ring_share,
            both_ways_share=rates.both_ways_share,
            direct_share=rates.direct_share,
            latency=self.step_latency(shape),
            level="scale_out",
            shape=shape,
            **self.constants(),
        )

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        line = needed(nic, nodes).per_rank(ranks_per_node, gpus_per_node)
        down = [
            Edge(node * ranks_per_node + local, _named(0, node // self.radix[0]), line, self.link_latency)
            for node in range(nodes)
            for local in range(ranks_per_node)
        ]
        return down + self.uplinks(nodes, line * ranks_per_node, self.link_latency, _named)
