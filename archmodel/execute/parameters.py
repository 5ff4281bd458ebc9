"""Parameters of a whole model, before they are cut into shards and after they are put together again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Array
from archmodel.workloads.layers import Attention, Linear, Listed, LowRankCross, Lstm
from archmodel.workloads.recommendation import Workload

_TABLE, _DENSE = 4, 5


@dataclass(frozen=True)
class Parameters:
    """`tables` in table order, each (num_embeddings, embedding_dim); `dense` by name (`top_0.weight`, ...)."""

    tables: tuple[Array, ...]
    dense: dict[str, Array]

    def named(self, names: tuple[str, ...]) -> dict[str, Array]:
        """All tensors; tables under their names in `names`."""
        return self.dense | dict(zip(names, self.tables, strict=True))

    @property
    def arrays(self) -> list[Array]:
        """All tensors in a fixed order."""
        return [*self.tables, *(self.dense[name] for name in sorted(self.dense))]


def digest(*arrays: Array) -> str:
    """SHA-256 of every bit of some arrays."""
    total = hashlib.sha256()
    for values in arrays:
        total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()


def shapes(workload: Workload) -> dict[str, tuple[int, ...]]:
    """Shape of every dense parameter, in forward order."""
    result: dict[str, tuple[int, ...]] = {}
    for layer in workload.layers():
        if isinstance(layer, Linear):
            result[f"{layer.name}.weight"] = (layer.out_features, layer.in_features)
            result[f"{layer.name}.bias"] = (layer.out_features,)
        elif isinstance(layer, LowRankCross):
            result[f"{layer.name}.down"] = (layer.rank, layer.features)
            result[f"{layer.name}.up"] = (layer.features, layer.rank)
            result[f"{layer.name}.bias"] = (layer.features,)
        elif isinstance(layer, Listed):
            result |= {f"{layer.name}.{part}": shape for part, shape in layer.shapes.items()}
    return result


GATED_SCALE = 3.0
"""Scale of the weights of LSTMs and attention: their gates have slopes of about a quarter, and stacks of them would
pass nothing on."""


def scales(workload: Workload) -> dict[str, float]:
    """Standard deviations of a listed layer's parameters, by name; of others `initial` knows."""
    result: dict[str, float] = {}
    for layer in workload.layers():
        if isinstance(layer, Listed):
            times = GATED_SCALE if isinstance(layer, Lstm | Attention) else 1.0
            for part, shape in layer.shapes.items():
                result[f"{layer.name}.{part}"] = times / np.sqrt(shape[-1]) if part != "bias" else 0.1
    return result


def initial(workload: Workload, seed: int) -> Parameters:
    """Random parameters, scaled so that activations stay near one; the same whatever the plan."""
    tables = workload.table_arrays
    rows = []
    for t in range(len(tables)):
        shape = (int(tables.num_embeddings[t]), int(tables.embedding_dim[t]))
        scale = 0.5 / np.sqrt(max(float(tables.pooling_factor[t]), 1.0))
        rows.append(np.random.default_rng([seed, _TABLE, t]).normal(0.0, scale, shape))
    dense, listed = {}, scales(workload)
    for i, (name, size) in enumerate(shapes(workload).items()):
        rng = np.random.default_rng([seed, _DENSE, i])
        scale = listed.get(name, np.sqrt(2.0 / size[-1]) if len(size) > 1 else 0.1)
        dense[name] = rng.normal(0.0, scale, size)
    return Parameters(tuple(rows), dense)
