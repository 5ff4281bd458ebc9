"""Embedding tables: what a design file writes (groups) and what the rest of the package reads (arrays over tables)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.memory.access import AccessDistribution, AccessFamily, Uniform
from archmodel.quantities import Array, Count

MAX_TABLES = 1_000_000


class TableGroup(Component):
    """One table, or `count` tables written together. Each of the three sizes is one value for all or a list of
    `count`. The tables of a group `cat` are named `cat_0`, `cat_1`, ...; a group without count or list is one table
    of that name."""

    count: Count | None = Field(default=None, le=MAX_TABLES, description="tables in the group")
    num_embeddings: int | list[int] = Field(description="rows of each table")
    embedding_dim: int | list[int] = Field(description="elements of each row")
    pooling_factor: float | list[float] = Field(default=1.0, description="mean indices per sample and table")
    access: Annotated[AccessDistribution, AccessFamily.field(default="uniform")] = Field(
        default_factory=Uniform, description="distribution of row ids"
    )

    @model_validator(mode="after")
    def _sizes_agree(self) -> TableGroup:
        lengths = {
            name: len(value)
            for name in ("num_embeddings", "embedding_dim", "pooling_factor")
            if isinstance(value := getattr(self, name), list)
        }
        expected = self.count if self.count is not None else next(iter(lengths.values()), 1)
        for name, length in lengths.items():
            if length != expected:
                raise ValueError(f"{name} lists {length} values for {expected} tables")
            if length == 0:
                raise ValueError(f"{name} is an empty list")
        for name, low in (("num_embeddings", 0), ("embedding_dim", 1), ("pooling_factor", 0)):
            values = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
            if not np.all(np.isfinite(values)) or np.any(values < low) or np.any(values > 1e15):
                raise ValueError(f"{name} must be between {low} and 1e15 everywhere")
        return self

    @property
    def size(self) -> int:
        """Number of tables in the group."""
        if self.count is not None:
            return self.count
        lists = [v for v in (self.num_embeddings, self.embedding_dim, self.pooling_factor) if isinstance(v, list)]
        return len(lists[0]) if lists else 1

    @property
    def is_single(self) -> bool:
        """True when the group is one table that carries the group's own name."""
        return self.count is None and self.size == 1 and not isinstance(self.num_embeddings, list)


@dataclass(frozen=True)
class Tables:
    """All tables of a workload as arrays over tables, shape (T,)."""

    names: tuple[str, ...]
    num_embeddings: npt.NDArray[np.int64]
    embedding_dim: npt.NDArray[np.int64]
    pooling_factor: Array
    distributions: tuple[AccessDistribution, ...]
    distribution_of: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def parameters(self) -> int:
        """Elements of all tables together."""
        return int(sum(int(r) * int(d) for r, d in zip(self.num_embeddings, self.embedding_dim, strict=True)))

    def expected_unique(self, samples: float, which: npt.NDArray[np.int64] | None = None) -> Array:
        """Expected distinct rows of every table, or of those in `which`, in a batch of `samples`; shape (T,)."""
        wanted = slice(None) if which is None else which
        rows, draws = self.num_embeddings[wanted].astype(np.float64), self.pooling_factor[wanted] * samples
        unique = np.zeros(len(rows))
        for i, distribution in enumerate(self.distributions):
            mine = self.distribution_of[wanted] == i
            unique[mine] = distribution.expected_unique(rows[mine], draws[mine])
        return unique

    @classmethod
    def from_groups(cls, groups: dict[str, TableGroup]) -> Tables:
        """Expand groups into arrays; table order is the order of the file."""
        names: list[str] = []
        columns: list[tuple[Array, Array, Array, Array]] = []
        for index, (name, group) in enumerate(groups.items()):
            names.extend([name] if group.is_single else [f"{name}_{i}" for i in range(group.size)])
            sizes = (group.num_embeddings, group.embedding_dim, group.pooling_factor, index)
            columns.append(tuple(np.broadcast_to(np.asarray(s, dtype=np.float64), group.size) for s in sizes))  # type: ignore[arg-type]
        rows, dims, pooling, owner = (
            np.concatenate([c[i] for c in columns]) if columns else np.zeros(0) for i in range(4)
        )
        return cls(
            names=tuple(names),
            num_embeddings=rows.astype(np.int64),
            embedding_dim=dims.astype(np.int64),
            pooling_factor=pooling,
            distributions=tuple(g.access for g in groups.values()),
            distribution_of=owner.astype(np.int64),
        )
