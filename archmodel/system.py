"""The machine as one value: nodes of devices, host memory and network interfaces, and the fabrics that join them."""

from __future__ import annotations

import re
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator, model_validator

from archmodel.components.base import Component
from archmodel.components.device import DEVICES, Device
from archmodel.components.endpoint import ENDPOINTS, Endpoint
from archmodel.errors import suggestion
from archmodel.memory.host_tier import HostTier
from archmodel.memory.tier import MemoryTier
from archmodel.network import (
    SCALE_OUT,
    SCALE_UP,
    Nic,
    NoScaleOut,
    NoScaleUp,
    ScaleOut,
    ScaleUp,
    Topology,
    build_topology,
)
from archmodel.network.topology import place
from archmodel.quantities import (
    Bytes,
    Count,
    Num,
    PositiveBandwidth,
    PositiveRatio,
    PositiveSeconds,
    Seconds,
    Usd,
    UsdPerJoule,
    Watts,
)

_TIER_NAME = re.compile(r"[a-z][a-z0-9_]*")


class HostLink(Component):
    """The link between a device and its host's memory, one per device."""

    bandwidth: PositiveBandwidth = Field(
        description="per direction and device, achieved or line rate as the source says"
    )
    pageable: PositiveBandwidth | None = Field(
        default=None,
        description="the same from memory that is not pinned, which the driver copies through a buffer of its own; "
        "absent: no slower",
    )
    latency: Seconds = Field(default=0.0, description="of one access")
    fault_time: PositiveSeconds | None = Field(
        default=None, description="of the driver to serve one page that a device faults on, beside moving it"
    )


def _check_channels(name: str, tier: HostTier, tiers: dict[str, HostTier]) -> None:
    """Raises ValueError for channels that no memory can be on."""
    owner, alike = tier.channels_of, f"tier {name}: channels_of"
    if owner is None:
        return
    if owner == name or owner not in ("ddr", *tiers):
        raise ValueError(f"{alike} {owner!r} is no other memory of the node; {suggestion(owner, ['ddr', *tiers])}")
    if str(tier.memory.kind) == "block" or tier.memory.link_bandwidth is not None:
        raise ValueError(f"{alike} is for memory modules; drives and what is behind a link have channels of their own")
    if owner != "ddr" and (tiers[owner].channels_of is not None or str(tiers[owner].memory.kind) == "block"):
        raise ValueError(f"{alike} {owner!r} has no channels of its own to share")


class Host(Component):
    """Processors and memory of a node beside its devices."""

    cpu: Annotated[Device, DEVICES.field(default="cpu")] | None = Field(default=None, description="one processor")
    sockets: Count = Field(default=1, description="processors of a node")
    ddr: MemoryTier = Field(description="host memory of the whole node")
    link: HostLink = Field(description="from each device to host memory")
    tiers: dict[str, HostTier] = Field(
        default_factory=dict,
        description="further memories of a node by the name that plans call them: CXL, persistent memory, drives",
    )

    @field_validator("tiers")
    @classmethod
    def _names(cls, tiers: dict[str, HostTier]) -> dict[str, HostTier]:
        for name in tiers:
            if name in ("hbm", "ddr", "auto") or not _TIER_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} cannot name a further tier: small letters, digits and _ are needed, and hbm, ddr and "
                    "auto mean other things"
                )
        for name, tier in tiers.items():
            _check_channels(name, tier, tiers)
        return tiers

    def tier(self, name: str) -> HostTier:
        """The memory that plans call `name`. KeyError when there is none."""
        if name == "ddr":
            return HostTier.model_construct(memory=self.ddr, count=1)
        return self.tiers[name]

    @property
    def tier_names(self) -> tuple[str, ...]:
        """Names of all memories beside the devices' own, the shortest access first; of equals, the most bandwidth."""

        def slowness(name: str) -> tuple[float, float]:
            tier = self.tier(name)
            return float(np.max(np.asarray(tier.memory.access_latency()))), -float(np.max(np.asarray(tier.bandwidth)))

        return tuple(sorted(["ddr", *self.tiers], key=slowness))

    def bandwidth_per_device(self, devices: int, *, pageable: bool = False) -> Num:
        """B/s of host memory for each of `devices` that read at once: its link, or its share of DDR bandwidth."""
        link = self.link.bandwidth
        if pageable and self.link.pageable is not None:
            link = np.minimum(link, self.link.pageable)
        return np.minimum(link, np.asarray(self.ddr.bandwidth) / devices)


class Node(Component):
    """One server."""

    gpu: Annotated[Device, DEVICES.field(default="gpu")] | None = Field(default=None, description="one GPU")
    accelerator: Annotated[Device, DEVICES.field(default="accelerator")] | None = Field(
        default=None, description="one accelerator that is no GPU, in place of gpu"
    )
    gpus: Count = Field(default=1, le=4096, description="devices of a node")
    scale_up: Annotated[ScaleUp, SCALE_UP.field()] = Field(
        default_factory=lambda: NoScaleUp.model_validate({}), description="fabric between the devices of a node"
    )
    nic: Nic | None = Field(default=None, description="network interfaces of a node")
    endpoint: Annotated[Endpoint, ENDPOINTS.field()] | None = Field(
        default=None,
        description="what drives each device's links and what that costs compute; absent: collectives cost compute "
        "nothing, and the fabric's own figures say how fast they are",
    )
    host: Host | None = Field(default=None, description="processors and memory beside the devices")
    reserved_memory: Bytes = Field(default=0.0, description="memory of each device that the runtime keeps for itself")
    other_power: Watts = Field(default=0.0, description="power of a node beside its devices")
    price: Usd | None = Field(default=None, description="price of a node, devices included")
    other_price: Usd | None = Field(
        default=None,
        description="in place of price: of a node without devices, interfaces and host memory, whose prices are added",
    )

    @model_validator(mode="after")
    def _priced_once(self) -> Node:
        if self.other_price is None:
            return self
        if self.price is not None:
            raise ValueError("states price and other_price; one of them says what a node costs")
        prices = {"gpu" if self.gpu is not None else "accelerator": self.device.price}
        if self.nic is not None:
            prices["nic"] = self.nic.price
        if self.host is not None:
            prices["host.ddr"] = self.host.ddr.price
        missing = [name for name, price in prices.items() if price is None]
        if missing:
            raise ValueError(f"adds the prices of its parts to other_price, but states none for {', '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _one_device(self) -> Node:
        if (self.gpu is None) == (self.accelerator is None):
            raise ValueError("needs exactly one of gpu and accelerator")
        return self

    @property
    def device(self) -> Device:
        """The training device, whichever kind."""
        device = self.gpu if self.gpu is not None else self.accelerator
        assert device is not None
        return device

    @property
    def whole_price(self) -> Num | None:
        """USD of a node, or None: `price`, or the sum of its parts; and of the further memories of its host.

        other_price + gpus x (device + its memory, where that states a price) + interfaces x nic + host memory
        """
        base = self.price if self.other_price is None else self._parts_price(self.other_price)
        if base is None or self.host is None:
            return base
        further = [tier.memory.price * tier.count for tier in self.host.tiers.values() if tier.memory.price is not None]
        return sum(further, base)

    def _parts_price(self, other: Num) -> Num:
        device = self.device
        assert device.price is not None
        total = other + (device.price + _own_price(device)) * self.gpus
        if self.nic is not None and self.nic.price is not None:
            total = total + self.nic.price * (self.nic.per_node or self.gpus)
        if self.host is not None and self.host.ddr.price is not None:
            total = total + self.host.ddr.price
        return total


def _own_price(device: Device) -> Num:
    """USD of a device's memory, where it is priced apart from the device."""
    price = getattr(getattr(device, "hbm", None), "price", None)
    return 0.0 if price is None else price


class Economics(Component):
    """What turns watts and prices into dollars."""

    lifetime: PositiveSeconds = Field(description="over which the price is written off")
    electricity: UsdPerJoule = Field(default=0.0, description="price of energy")
    facility_overhead: PositiveRatio = Field(default=1.0, description="energy of the facility over that of IT (PUE)")
    network_price: Usd = Field(default=0.0, description="price of switches and cables, per node")


class System(Component):
    """`nodes` equal nodes on a scale-out fabric."""

    node: Node
    nodes: Count = Field(default=1, le=1_000_000, description="nodes")
    scale_out: Annotated[ScaleOut, SCALE_OUT.field()] = Field(
        default_factory=lambda: NoScaleOut.model_validate({}), description="fabric between nodes"
    )
    economics: Economics | None = Field(default=None, description="lifetime, price of electricity")

    def capacities(self) -> dict[str, Num]:
        """Bytes of every memory that one rank has, the fastest first: its own, and its share of the node's."""
        node = self.node
        found: dict[str, Num] = {"hbm": node.device.memory.capacity}
        if node.host is not None:
            found |= {t: np.asarray(node.host.tier(t).capacity) / node.gpus for t in node.host.tier_names}
        return found

    @property
    def gpu(self) -> Device:
        """The device of every rank."""
        return self.node.device

    @property
    def ranks(self) -> int:
        """Devices of the whole system."""
        return self.nodes * self.node.gpus

    @property
    def price(self) -> Num | None:
        """USD of all nodes and their share of the network, over design points; None when a node has no price."""
        each = self.node.whole_price
        if each is None:
            return None
        total = np.asarray(each + (0.0 if self.economics is None else self.economics.network_price)) * self.nodes
        return total[..., 0] if total.ndim else float(total)

    def topology(self, ranks: int | None = None) -> Topology:
        """The network between the first `ranks` devices (all of them when left out): part of one node or whole
        nodes; as many nodes as that takes, also more than `nodes`. Raises TopologyError."""
        local, nodes = (self.node.gpus, self.nodes) if ranks is None else place(ranks, self.node.gpus)
        return build_topology(
            self.node.scale_up,
            ranks_per_node=local,
            nodes=nodes,
            nic=self.node.nic,
            scale_out=self.scale_out,
            gpus_per_node=self.node.gpus,
        )
