"""Plans as design files write them: which table is cut how, on which ranks, in which tier and precision.

A table takes its plan from `tables.assign[name]`, else from the first matching rule, else from `tables.default`; fields
that the chosen entry leaves out come from `tables.default`, then from the plan's own defaults.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from archmodel.components.base import Component, OneOrMore, OneWord
from archmodel.errors import ArchmodelError
from archmodel.quantities import Count, Dtype, Fraction, PositiveBytes, parse
from archmodel.workloads.tables import Tables

Sharding = Literal[
    "auto",
    "table_wise",
    "column_wise",
    "row_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_wise",
    "data_parallel",
]
CachePolicy = Literal["lru", "lfu", "fifo"]
Optimizer = Literal["sgd", "rowwise_adagrad", "adagrad", "adam"]
FloatDtype = Literal["fp64", "fp32", "bf16", "fp16", "fp8"]
IndexDtype = Literal["int32", "int64"]
_CONDITION = re.compile(r"\s*(<=|>=|==|<|>)?\s*([0-9_,.]+(?:[eE][0-9]+)?)\s*([kMG]?)\s*$")
_OPERATORS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal}


def _condition(value: object) -> object:
    text = str(value)
    if not _CONDITION.match(text):
        raise ValueError('is not a comparison; write e.g. "< 10000", ">= 1e6" or "== 128"')
    return text


Condition = Annotated[str, BeforeValidator(_condition)]


def holds(condition: str, values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Where `values` (T,) satisfy a comparison such as "< 10000"; a bare number means equality."""
    matched = _CONDITION.match(condition)
    assert matched is not None  # the field's validator has checked it
    operator, number, suffix = matched.groups()
    limit = float(number.replace("_", "").replace(",", "")) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[suffix]
    return np.asarray(_OPERATORS[operator or "=="](values, limit))


class Match(Component):
    """Which tables a rule is for: every given condition must hold."""

    name: str | None = Field(default=None, description="shell-style pattern, e.g. user_*")
    rows: Condition | None = Field(default=None, description='comparison with num_embeddings, e.g. "< 10000"')
    dim: Condition | None = Field(default=None, description="comparison with embedding_dim")
    pooling: Condition | None = Field(default=None, description="comparison with pooling_factor")

    def tables(self, tables: Tables) -> npt.NDArray[np.bool_]:
        """Mask over tables (T,)."""
        mask = np.ones(len(tables), dtype=bool)
        if self.name is not None:
            pattern = re.compile(fnmatch.translate(self.name))
            mask &= np.fromiter((pattern.match(n) is not None for n in tables.names), bool, len(tables))
        for condition, values in (
            (self.rows, tables.num_embeddings),
            (self.dim, tables.embedding_dim),
            (self.pooling, tables.pooling_factor),
        ):
            if condition is not None:
                mask &= holds(condition, values)
        return mask


CacheUnit = Literal["share", "rows", "bytes"]


@dataclass(frozen=True, slots=True)
class CacheSize:
    """How much a cache holds: a `share` of each table, `rows` of each table, or `bytes` on each rank for all tables of
    the entry together."""

    amount: float
    unit: CacheUnit

    @classmethod
    def read(cls, value: object) -> CacheSize:
        """From `4 GiB`, `20 %` or 0.2 (a share), or 100000 (rows). Raises ValueError."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            try:
                found = cls(parse(value, "bytes"), "bytes")
            except ArchmodelError:
                try:
                    found = cls(parse(value, "ratio"), "share")
                except ArchmodelError:
                    raise ValueError(_CACHE_SIZES) from None
        elif isinstance(value, int) and not isinstance(value, bool):
            found = cls(float(value), "rows")
        elif isinstance(value, float):
            found = cls(value, "share" if 0 < value < 1 or not value.is_integer() else "rows")
        else:
            raise ValueError(_CACHE_SIZES)
        if found.unit == "share" and found.amount > 1:
            raise ValueError(f"is {found.amount:g} times the table; a cache is smaller. {_CACHE_SIZES}")
        if not found.amount > 0:
            raise ValueError(f"is a cache that holds nothing. {_CACHE_SIZES}")
        return found


_CACHE_SIZES = "Write bytes on each rank (4 GiB), a share of each table (20 %) or whole rows of each table (100000)"


class CachePlan(Component):
    """A software-managed cache of rows in a faster tier than the table's own, or than the next cache of a list. Rows
    move with their optimizer state."""

    model_config = ConfigDict(populate_by_name=True)

    tier: str = Field(
        alias="in", description="tier that the cached rows lie in: hbm, ddr or one that the host declares"
    )
    size: Annotated[CacheSize, BeforeValidator(CacheSize.read), WithJsonSchema({"type": ["string", "number"]})] = Field(
        description="4 GiB on each rank for all tables of this entry, 20 % of each table, or 100000 rows of each table"
    )
    policy: CachePolicy = Field(default="lru", description="which row makes room")
    ways: Count | None = Field(default=32, description="rows of a set; null: fully associative")
    prefetch: int | None = Field(
        default=None,
        ge=0,
        le=16,
        description="batches ahead that missing rows are fetched; 0: when they are looked up; left out: as the plan's "
        "other caches, else 1 with plan.prefetch_input and 0 without it or with pages",
    )
    page: PositiveBytes | None = Field(
        default=None,
        description="rows come and go by pages of so many bytes that the device faults on, as in unified memory "
        "(prefetch: 0); left out: row by row, by software",
    )
    write: Literal["back"] = Field(
        default="back", description="changed rows are written when they leave: to the next cache that has them, or home"
    )


class TablePlan(Component):
    """How one table, or every table of a rule, is cut and held. What is left out is decided for you."""

    sharding: Sharding | None = Field(default=None, description="how the table is cut")
    ranks: list[int] | None = Field(default=None, min_length=1, description="ranks of the shards, in column order")
    nodes: list[int] | None = Field(
        default=None, min_length=1, description="nodes of the shards (table_row_wise, grid)"
    )
    column_shards: Count | None = Field(default=None, description="pieces that the columns are cut into")
    tier: str | None = Field(
        default=None,
        description="memory that holds the rows: hbm, ddr or one that the host declares; auto or left out: the fastest "
        "that has room, tables with most traffic per byte first",
    )
    cache: Annotated[tuple[CachePlan, ...] | None, OneOrMore()] = Field(
        default=None,
        description="cache of rows in a faster tier, or several from the fastest tier down, each above the next; "
        "[]: none, whatever the default has",
    )
    dtype: Dtype | None = Field(default=None, description="precision of the rows")
    optimizer: Optimizer | None = Field(default=None, description="sparse optimizer")


class TableRule(TablePlan):
    """A table plan for all tables that match."""

    match: Match


class TablesPlan(Component):
    """Plans of all embedding tables."""

    default: Annotated[TablePlan, OneWord("sharding")] = Field(
        default_factory=lambda: TablePlan(sharding="auto"), description="tables that nothing else names"
    )
    rules: list[TableRule] = Field(default_factory=list, description="the first rule that matches a table holds")
    assign: dict[str, TablePlan] = Field(default_factory=dict, description="tables by name")


class Wires(Component):
    """Precision of what travels between ranks."""

    lookup_forward: FloatDtype = Field(default="fp32", description="pooled embeddings")
    lookup_backward: FloatDtype = Field(default="fp32", description="gradients of pooled embeddings")
    dense_gradient: FloatDtype = Field(default="fp32", description="gradients of dense parameters")
    index: IndexDtype = Field(default="int64", description="row ids")
    length: IndexDtype = Field(default="int32", description="indices per bag")


class Precision(Component):
    """Precision of the dense layers."""

    compute: FloatDtype | Literal["tf32"] = Field(
        default="fp32", description="activations and GEMMs (tf32 stores 4 bytes)"
    )
    parameters: FloatDtype = Field(default="fp32", description="master copy of dense parameters and optimizer state")
    cast_parameters: bool = Field(
        default=False,
        description="no copy of dense parameters is kept in the compute precision: each is cast before the forward "
        "pass and its gradient after the backward pass, a kernel each (PyTorch's autocast)",
    )


class BottomMlpPlan(Component):
    """Where the bottom MLP runs: `data_parallel`, or `{rank: 0}`."""

    rank: int | None = Field(
        default=None,
        ge=0,
        description="rank that runs it alone, for the whole batch, its output exchanged like a pooled feature; "
        "left out: every rank runs it for its own samples",
    )
    sliced: bool = Field(
        default=False,
        description="its exchanged output is read as a slice of all features, so that its gradient is padded with "
        "zeros to their width and added to theirs, as PyTorch's autograd does",
    )


class Plan(Component):
    """The whole parallel plan of a design."""

    dense: Literal["data_parallel"] = Field(default="data_parallel", description="dense layers are replicated")
    bottom_mlp: Annotated[BottomMlpPlan, OneWord(None, "data_parallel")] = Field(
        default_factory=BottomMlpPlan, description="layers below the interaction: data_parallel, or {rank: 0}"
    )
    dense_optimizer: Literal["sgd", "adagrad", "adam"] = Field(default="sgd", description="optimizer of dense layers")
    tables: Annotated[TablesPlan, OneWord("default")] = Field(
        default_factory=TablesPlan, description="embedding tables"
    )
    wires: Wires = Field(default_factory=Wires, description="precisions on the wire")
    precision: Precision = Field(default_factory=Precision, description="precisions of the dense layers")
    prefetch_input: bool = Field(
        default=False, description="copy the next batch and distribute its indices during this one"
    )
    copy_input: bool = Field(
        default=False,
        description="the batch is copied from host memory over the host link every iteration; "
        "false: it lies in device memory when the iteration starts",
    )
    pageable_input: bool = Field(
        default=False,
        description="what copy_input copies lies in pageable memory, so that the thread that issues kernels copies it, "
        "once it has issued an iteration, and issues nothing meanwhile",
    )
    graph_capture: bool = Field(default=True, description="kernels are launched from a captured graph")
    fused_epilogues: bool = Field(
        default=True,
        description="bias, ReLU and their gradients run inside the products (cuBLASLt epilogues); "
        "false: in kernels of their own, as eager frameworks do",
    )
    fused_loss: bool = Field(
        default=True,
        description="the loss is one kernel and its gradient another; false: 14 and 4, as PyTorch composes "
        "binary_cross_entropy_with_logits (aten/src/ATen/native/Loss.cpp)",
    )
    sparse_update: Literal["exact", "rows", "rows_compiled"] = Field(
        default="exact",
        description="exact: equal indices are summed, each distinct row is stepped once, in one fused kernel; rows: as "
        "torch.optim.SGD does with sparse gradients, a row of gradients per index is written, scaled in passes of its "
        "own and added to the table by atomics; rows_compiled: the same, a compiler making all the scaling one pass",
    )
    cast_after_lookup: bool = Field(
        default=False,
        description="pooled vectors are written in the format of parameters and cast to the wire's by a kernel more",
    )
    loss_scaling: bool = Field(
        default=False,
        description="gradients are unscaled before the step, and the host waits to hear whether any is infinite "
        "(PyTorch's GradScaler)",
    )
    host_waits: bool = Field(
        default=False,
        description="the host waits for the device at the end of every iteration and only then issues the next",
    )
    gradient_bucket: PositiveBytes = Field(default=25 * 2.0**20, description="bytes of one dense all-reduce")
    copy_buckets: bool = Field(
        default=False,
        description="each gradient is copied into its bucket, divided by the number of ranks, and back after the "
        "all-reduce, a kernel each (DistributedDataParallel without gradient_as_bucket_view)",
    )
    all_reduce: Literal["auto", "ring", "hierarchical", "in_network"] = Field(
        default="auto", description="algorithm of dense all-reduces; auto: as a library picks, by bytes and ranks"
    )
    collective_order: Literal["fifo", "lifo"] = Field(
        default="fifo",
        description="of collectives that wait for the network: fifo, as issued; lifo, the last issued first, with "
        "weights stepped when the next forward pass needs them, so that all-reduces run on under it",
    )
    memory_reserve: Fraction = Field(default=0.0, description="share of HBM that the automatic placement leaves free")
