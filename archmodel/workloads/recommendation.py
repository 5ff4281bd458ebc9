"""Recommendation models: DLRM (arXiv 1906.00091) and DCNv2 (arXiv 2008.13535) on embedding tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from archmodel.components.base import Component, Family
from archmodel.quantities import Count
from archmodel.workloads.layers import (
    DENSE_INPUT,
    EMBEDDINGS,
    BinaryCrossEntropy,
    Concatenate,
    Dot,
    Layer,
    Linear,
    LowRankCross,
)
from archmodel.workloads.tables import MAX_TABLES, TableGroup, Tables

Width = Annotated[int, Field(ge=1, le=10_000_000)]


class Workload(Component):
    """Base of all model kinds: a batch, tables, and dense layers in forward order."""

    global_batch: Count = Field(le=10**9, description="samples of one iteration over all ranks")
    mode: Literal["train", "inference"] = Field(default="train", description="train: forward, backward and update")
    tables: dict[str, TableGroup] = Field(default_factory=dict, description="embedding tables, groups by name")

    @model_validator(mode="after")
    def _not_too_many_tables(self) -> Workload:
        total = sum(group.size for group in self.tables.values())
        if total > MAX_TABLES:
            raise ValueError(f"{total:,} tables; at most {MAX_TABLES:,} can be evaluated")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Workload:
        names = self.table_arrays.names
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise ValueError(f"two tables are called {twice}: a group of several names its tables by number")
        return self

    @cached_property
    def table_arrays(self) -> Tables:
        """All tables as arrays."""
        return Tables.from_groups(self.tables)

    def layers(self) -> tuple[Layer, ...]:
        """Dense layers in forward order."""
        raise NotImplementedError

    @property
    def dense_parameters(self) -> int:
        """Parameters of all dense layers."""
        return sum(layer.parameters for layer in self.layers())

    @property
    def flops_per_sample(self) -> int:
        """Forward floating-point operations of the dense layers for one sample."""
        return sum(layer.flops_per_sample for layer in self.layers())


WorkloadFamily: Family[Workload] = Family("workload", {"layers": "archmodel.workloads.layered"})


class Recommendation(Workload):
    """Bottom MLP on dense features, an interaction with the pooled embeddings, and a top MLP to one logit."""

    dense_features: Count = Field(description="dense input features per sample")
    bottom_mlp: list[Width] = Field(description="output width of each bottom layer")
    top_mlp: list[Width] = Field(min_length=1, description="output width of each top layer; the last is the logit")

    @property
    def bottom_width(self) -> int:
        """Width of the bottom MLP's output."""
        return self.bottom_mlp[-1] if self.bottom_mlp else self.dense_features

    @property
    def bottom_output(self) -> str:
        """Tensor that the bottom MLP leaves."""
        return f"bottom_{len(self.bottom_mlp) - 1}" if self.bottom_mlp else DENSE_INPUT

    def _bottom(self) -> Iterator[Layer]:
        width, tensor = self.dense_features, DENSE_INPUT
        for i, out in enumerate(self.bottom_mlp):
            yield Linear(f"bottom_{i}", tensor, f"bottom_{i}", width, out, relu=True)
            width, tensor = out, f"bottom_{i}"

    def _top(self, tensor: str, width: int) -> Iterator[Layer]:
        for i, out in enumerate(self.top_mlp):
            yield Linear(f"top_{i}", tensor, f"top_{i}", width, out, relu=i + 1 < len(self.top_mlp))
            width, tensor = out, f"top_{i}"
        yield BinaryCrossEntropy("loss", tensor)

    @property
    def _embedding_width(self) -> int:
        return int(self.table_arrays.embedding_dim.sum())


@WorkloadFamily.register
class Dlrm(Recommendation):
    """DLRM: pairwise dots of all feature vectors (`dot`), or plain concatenation (`cat`)."""

    kind: Literal["dlrm"] = "dlrm"
    interaction: Literal["dot", "cat"] = Field(default="dot", description="dot: pairwise dots; cat: concatenation")

    @model_validator(mode="after")
    def _dims_agree(self) -> Dlrm:
        if self.interaction == "dot":
            dims = sorted({int(d) for d in self.table_arrays.embedding_dim} | {self.bottom_width})
            if len(dims) > 1:
                raise ValueError(
                    f"interaction dot needs one width for all features; the bottom MLP gives {self.bottom_width}, "
                    f"the tables {', '.join(map(str, np.unique(self.table_arrays.embedding_dim)[:8]))}"
                )
        return self

    def layers(self) -> tuple[Layer, ...]:
        bottom = tuple(self._bottom())
        mix: Dot | Concatenate
        if self.interaction == "dot":
            features = len(self.table_arrays) + 1
            mix = Dot("interaction", self.bottom_output, EMBEDDINGS, "interaction", features, self.bottom_width)
        else:
            mix = Concatenate(
                "interaction",
                self.bottom_output,
                EMBEDDINGS,
                "interaction",
                self.bottom_width,
                self._embedding_width,
            )
        return (*bottom, mix, *self._top("interaction", mix.out_features))


@WorkloadFamily.register
class Dcnv2(Recommendation):
    """DCNv2: low-rank cross layers over the concatenated features, then the top MLP."""

    kind: Literal["dcnv2"] = "dcnv2"
    cross_layers: Count = Field(le=1000, description="cross layers")
    cross_rank: Count = Field(description="rank of each cross layer's weight")

    def layers(self) -> tuple[Layer, ...]:
        cat = Concatenate(
            "interaction",
            self.bottom_output,
            EMBEDDINGS,
            "interaction",
            self.bottom_width,
            self._embedding_width,
        )
        width = cat.out_features
        crosses: list[Layer] = []
        tensor = "interaction"
        for i in range(self.cross_layers):
            crosses.append(LowRankCross(f"cross_{i}", "interaction", tensor, f"cross_{i}", width, self.cross_rank))
            tensor = f"cross_{i}"
        return (*self._bottom(), cat, *crosses, *self._top(tensor, width))
