"""Models written as a list of layers: convolutions, linear layers, LSTMs, attention, token tables, exchanges.

A layer reads the one before it unless `after` names others. Sizes are per sample; the plan decides the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field, model_validator

from archmodel.components.base import Component, Family
from archmodel.errors import suggestion
from archmodel.quantities import Count
from archmodel.workloads.layers import Attention, Conv, Exchange, Layer, Listed, Lookup, Lstm
from archmodel.workloads.recommendation import Workload, WorkloadFamily


class LayerSpec(Component):
    """One layer of a list."""

    after: tuple[str, ...] | None = Field(
        default=None, description="layers whose outputs it reads; absent: the one before it in the list; []: the input"
    )

    @abstractmethod
    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        """The layer, reading tensors `inputs`."""


LAYERS: Family[LayerSpec] = Family("layer")


@LAYERS.register
class ConvSpec(LayerSpec):
    """A square convolution."""

    kind: Literal["conv"] = "conv"
    in_channels: Count = Field(description="channels of its input")
    out_channels: Count = Field(description="channels of its output")
    kernel: Count = Field(default=1, le=1024, description="side of the kernel")
    size: Count = Field(le=100_000, description="side of its output, places")
    stride: Count = Field(default=1, le=1024, description="places of input for one place of output, along a side")
    bias: bool = Field(default=False, description="whether a bias is added")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        out = self.size**2
        before = out * self.stride**2
        return Conv(name, inputs, self.in_channels, self.out_channels, self.kernel, out, before, self.bias)


@LAYERS.register
class LinearSpec(LayerSpec):
    """A linear layer."""

    kind: Literal["linear"] = "linear"
    in_features: Count = Field(description="width of its input")
    out_features: Count = Field(description="width of its output")
    tokens: Count = Field(default=1, le=10**7, description="places of a sample that it is applied to")
    bias: bool = Field(default=False, description="whether a bias is added")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        return Conv(name, inputs, self.in_features, self.out_features, 1, self.tokens, self.tokens, self.bias)


@LAYERS.register
class LstmSpec(LayerSpec):
    """A layer of LSTM cells."""

    kind: Literal["lstm"] = "lstm"
    in_features: Count = Field(description="width of its input")
    hidden: Count = Field(description="width of its state")
    tokens: Count = Field(le=100_000, description="time steps")
    bidirectional: bool = Field(default=False, description="a second one runs backwards; both outputs side by side")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        return Lstm(name, inputs, self.in_features, self.hidden, self.tokens, 2 if self.bidirectional else 1)


@LAYERS.register
class AttentionSpec(LayerSpec):
    """Additive attention."""

    kind: Literal["attention"] = "attention"
    width: Count = Field(description="of queries, keys and context")
    queries: Count = Field(le=100_000, description="positions that look")
    keys: Count = Field(le=100_000, description="positions that are looked at")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        return Attention(name, inputs, self.width, self.queries, self.keys)


@LAYERS.register
class LookupSpec(LayerSpec):
    """A table of tokens, replicated, with a dense gradient."""

    kind: Literal["lookup"] = "lookup"
    rows: Count = Field(description="tokens of the vocabulary")
    width: Count = Field(description="elements of a row")
    tokens: Count = Field(le=10**7, description="rows read for each sample")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        return Lookup(name, inputs, self.rows, self.width, self.tokens)


@LAYERS.register
class ExchangeSpec(LayerSpec):
    """An all-to-all of vectors forward, and of their gradients backward."""

    kind: Literal["exchange"] = "exchange"
    width: Count = Field(description="elements that a rank sends for each of its samples, its own part included")

    def layer(self, name: str, inputs: tuple[str, ...]) -> Listed:
        return Exchange(name, inputs, self.width)


INPUT = "dense_features"


@WorkloadFamily.register
class Layered(Workload):
    """A model as a list of layers by name, in forward order."""

    kind: Literal["layers"] = "layers"
    dense_features: Count = Field(default=1, description="elements of a sample's input")
    layer_list: dict[str, Annotated[LayerSpec, LAYERS.field()]] = Field(
        alias="layers", min_length=1, description="layers by name, in forward order"
    )

    @model_validator(mode="after")
    def _inputs_are_there(self) -> Layered:
        if self.tables:
            raise ValueError("a list of layers has no tables; write a lookup or an exchange as a layer")
        known: list[str] = []
        for name, spec in self.layer_list.items():
            if "." in name or name == INPUT:
                raise ValueError(f"a layer cannot be called {name!r}")
            if len(set(spec.after or ())) < len(spec.after or ()):
                raise ValueError(f"{name} reads a layer twice; write it once")
            for read in spec.after or ():
                if read not in known:
                    raise ValueError(f"{name} reads {read!r}, which no layer before it is; {suggestion(read, known)}")
            known.append(name)
        return self

    def layers(self) -> tuple[Layer, ...]:
        found: list[Layer] = []
        before: tuple[str, ...] = (INPUT,)
        for name, spec in self.layer_list.items():
            reads = before if spec.after is None else (spec.after or (INPUT,))
            found.append(spec.layer(name, reads))
            before = (name,)
        return tuple(found)
