"""An unsharded model in plain float64 numpy, written apart from the executor and the lowering: forward pass, backward
pass and optimizers of DLRM (dot, cat; arXiv 1906.00091) and DCNv2 (arXiv 2008.13535) as the papers state them.

Shapes: B samples, T tables, F dense features. Parameters go by the names `bottom_0.weight`, `cross_0.down`, ....
Two facts of the sharding change the mathematics and are arguments: row-wise Adagrad keeps one number per row *of each
column block* (as TorchRec's column-wise sharding does), and a replicated table is stepped whole, touched or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from archmodel.execute.errors import ExecutionError
from archmodel.execute.settings import Settings
from archmodel.workloads.recommendation import Dcnv2, Dlrm, Workload

Matrix = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Dense = dict[str, Matrix]


@dataclass(frozen=True)
class Inputs:
    """`dense` (B, F), `labels` (B,), and for every table `lengths` (B,) and `ids` (sum of lengths,)."""

    dense: Matrix
    labels: Matrix
    lengths: Sequence[Ids]
    ids: Sequence[Ids]


@dataclass(frozen=True)
class Gradients:
    """Gradients of the mean loss: dense parameters by name, whole tables, and which rows a batch touched."""

    loss: float
    dense: Dense
    tables: list[Matrix]
    touched: list[npt.NDArray[np.bool_]]


Pull = Callable[[Matrix, Dense], Matrix]
"""(gradient of the output, gradients to fill) -> gradient of the input."""


@dataclass
class Model:
    """The model's state between steps."""

    workload: Workload
    tables: list[Matrix]
    dense: Dense
    dense_optimizer: str
    table_optimizers: Sequence[str]
    column_blocks: Sequence[Sequence[tuple[int, int]]]
    whole_tables: frozenset[int] = frozenset()
    settings: Settings = field(default_factory=Settings)
    steps: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.workload, Dlrm | Dcnv2):
            raise ExecutionError(f"there is no reference for workloads of kind {getattr(self.workload, 'kind', '?')}")
        self._moments: dict[str, Matrix] = {}

    # --- forward ------------------------------------------------------------------------------------------------

    def logits(self, batch: Inputs) -> Matrix:
        """One logit per sample, (B,)."""
        return self._forward(batch)[0]

    def predict(self, batch: Inputs) -> Matrix:
        """Click probabilities, (B,)."""
        z = self.logits(batch)
        return np.exp(-np.logaddexp(0.0, -z))

    def loss(self, batch: Inputs) -> float:
        """Mean of -y log p - (1 - y) log (1 - p)."""
        z = self.logits(batch)
        return float((batch.labels * np.logaddexp(0, -z) + (1 - batch.labels) * np.logaddexp(0, z)).mean())

    def _pooled(self, batch: Inputs) -> list[Matrix]:
        """Sum of every bag's rows, per table (B, D)."""
        result = []
        for table, lengths, ids in zip(self.tables, batch.lengths, batch.ids, strict=True):
            sums = np.zeros((len(lengths), table.shape[1]))
            np.add.at(sums, np.repeat(np.arange(len(lengths)), lengths), table[ids])
            result.append(sums)
        return result

    def _forward(self, batch: Inputs) -> tuple[Matrix, Callable[[Matrix, Dense], list[Matrix]]]:
        """Logits, and the pull that turns their gradient into those of the pooled embeddings."""
        w = self.workload
        assert isinstance(w, Dlrm | Dcnv2)
        pooled = self._pooled(batch)
        x, pull_bottom = self._mlp("bottom", len(w.bottom_mlp), batch.dense, last_relu=True)
        pull_mix: Callable[[Matrix], tuple[Matrix, list[Matrix]]]
        pulls_cross: list[Callable[[Matrix, Matrix, Dense], tuple[Matrix, Matrix]]] = []
        if isinstance(w, Dlrm) and w.interaction == "dot":
            mixed, pull_mix = _dot(x, pooled)
        else:
            mixed, pull_mix = _cat(x, pooled)
        y = mixed
        if isinstance(w, Dcnv2):
            for i in range(w.cross_layers):
                y, pull = self._cross(f"cross_{i}", mixed, y)
                pulls_cross.append(pull)
        z, pull_top = self._mlp("top", len(w.top_mlp), y, last_relu=False)

        def backward(dz: Matrix, grads: Dense) -> list[Matrix]:
            dy = pull_top(dz[:, None], grads)
            dmixed = np.zeros_like(mixed)
            for pull in reversed(pulls_cross):
                dy, dbase = pull(dy, mixed, grads)
                dmixed += dbase
            dx, dpooled = pull_mix(dmixed + dy)
            pull_bottom(dx, grads)
            return dpooled

        return z[:, 0], backward

    def _mlp(self, name: str, layers: int, x: Matrix, last_relu: bool) -> tuple[Matrix, Pull]:
        """x <- relu(W x + b), layer by layer."""
        saved: list[tuple[Matrix, Matrix, bool]] = []
        for i in range(layers):
            a = np.einsum("bi,oi->bo", x, self.dense[f"{name}_{i}.weight"]) + self.dense[f"{name}_{i}.bias"]
            relu = last_relu or i < layers - 1
            saved.append((x, a, relu))
            x = np.where(a > 0, a, 0.0) if relu else a

        def pull(dy: Matrix, grads: Dense) -> Matrix:
            for i in reversed(range(layers)):
                x, a, relu = saved[i]
                da = np.where(a > 0, dy, 0.0) if relu else dy
                grads[f"{name}_{i}.weight"] = np.einsum("bo,bi->oi", da, x)
                grads[f"{name}_{i}.bias"] = da.sum(axis=0)
                dy = np.einsum("bo,oi->bi", da, self.dense[f"{name}_{i}.weight"])
            return dy

        return x, pull

    def _cross(
        self, name: str, x0: Matrix, x: Matrix
    ) -> tuple[Matrix, Callable[[Matrix, Matrix, Dense], tuple[Matrix, Matrix]]]:
        """x0 * (U V x + b) + x (DCN V2, equation 2)."""
        v, u, b = (self.dense[f"{name}.{p}"] for p in ("down", "up", "bias"))
        hidden = np.einsum("bi,ri->br", x, v)
        inner = np.einsum("br,or->bo", hidden, u) + b

        def pull(dy: Matrix, x0: Matrix, grads: Dense) -> tuple[Matrix, Matrix]:
            dinner = dy * x0
            grads[f"{name}.bias"] = dinner.sum(axis=0)
            grads[f"{name}.up"] = np.einsum("bo,br->or", dinner, hidden)
            dhidden = np.einsum("bo,or->br", dinner, u)
            grads[f"{name}.down"] = np.einsum("br,bi->ri", dhidden, x)
            return dy + np.einsum("br,ri->bi", dhidden, v), dy * inner

        return x0 * inner + x, pull

    # --- backward -----------------------------------------------------------------------------------------------

    def gradients(self, batch: Inputs) -> Gradients:
        """Loss and its gradients by every parameter."""
        z, backward = self._forward(batch)
        y, n = batch.labels, len(batch.labels)
        loss = float((y * np.logaddexp(0, -z) + (1 - y) * np.logaddexp(0, z)).mean())
        probability = np.exp(-np.logaddexp(0.0, -z))
        dense: Dense = {}
        dpooled = backward((probability - y) / n, dense)
        tables, touched = [], []
        for table, d, lengths, ids in zip(self.tables, dpooled, batch.lengths, batch.ids, strict=True):
            whole = np.zeros_like(table)
            np.add.at(whole, ids, np.repeat(d, lengths, axis=0))
            tables.append(whole)
            rows = np.zeros(len(table), dtype=bool)
            rows[ids] = True
            touched.append(rows)
        return Gradients(loss, dense, tables, touched)

    # --- optimizers ---------------------------------------------------------------------------------------------

    def step(self, batch: Inputs) -> float:
        """One training step; the loss before it."""
        grads = self.gradients(batch)
        self.steps += 1
        s = self.settings
        for name, g in grads.dense.items():
            rows = np.ones(len(g), dtype=bool)
            self._apply(name, self.dense[name], g, rows, self.dense_optimizer, s.dense_rate, [])
        for t, (table, g) in enumerate(zip(self.tables, grads.tables, strict=True)):
            rows = np.ones(len(table), dtype=bool) if t in self.whole_tables else grads.touched[t]
            self._apply(f"table {t}", table, g, rows, self.table_optimizers[t], s.sparse_rate, self.column_blocks[t])
        return grads.loss

    def _moment(self, key: str, shape: tuple[int, ...]) -> Matrix:
        return self._moments.setdefault(key, np.zeros(shape))

    def _apply(
        self,
        name: str,
        w: Matrix,
        g: Matrix,
        rows: npt.NDArray[np.bool_],
        optimizer: str,
        rate: float,
        blocks: Sequence[tuple[int, int]],
    ) -> None:
        """Step the given rows of `w` in place."""
        s = self.settings
        if optimizer == "sgd":
            w[rows] -= rate * g[rows]
        elif optimizer == "adagrad":
            h = self._moment(f"{name}.h", w.shape)
            h[rows] += g[rows] ** 2
            w[rows] -= rate * g[rows] / (h[rows] ** 0.5 + s.epsilon)
        elif optimizer == "rowwise_adagrad":
            for first, last in blocks:
                h = self._moment(f"{name}.h{first}", (len(w),))
                h[rows] += (g[rows, first:last] ** 2).mean(axis=1)
                w[rows, first:last] -= (rate / (h[rows] ** 0.5 + s.epsilon))[:, None] * g[rows, first:last]
        elif optimizer == "adam":
            m, v = self._moment(f"{name}.m", w.shape), self._moment(f"{name}.v", w.shape)
            m[rows] += (1 - s.beta1) * (g[rows] - m[rows])
            v[rows] += (1 - s.beta2) * (g[rows] ** 2 - v[rows])
            m_hat = m[rows] / (1 - s.beta1**self.steps)
            v_hat = v[rows] / (1 - s.beta2**self.steps)
            w[rows] -= rate * m_hat / (v_hat**0.5 + s.epsilon)
        else:
            raise ExecutionError(f"the reference has no optimizer {optimizer!r}")


def _cat(x: Matrix, pooled: list[Matrix]) -> tuple[Matrix, Callable[[Matrix], tuple[Matrix, list[Matrix]]]]:
    """Everything side by side."""
    parts = [x, *pooled]
    ends = np.cumsum([p.shape[1] for p in parts])

    def pull(d: Matrix) -> tuple[Matrix, list[Matrix]]:
        pieces = [d[:, end - p.shape[1] : end] for p, end in zip(parts, ends, strict=True)]
        return pieces[0], pieces[1:]

    return np.hstack(parts), pull


def _dot(x: Matrix, pooled: list[Matrix]) -> tuple[Matrix, Callable[[Matrix], tuple[Matrix, list[Matrix]]]]:
    """x, then the product of every pair of vectors (i, j), j < i, row by row."""
    vectors = [x, *pooled]
    pairs = [(i, j) for i in range(len(vectors)) for j in range(i)]
    products = [(vectors[i] * vectors[j]).sum(axis=1, keepdims=True) for i, j in pairs]

    def pull(d: Matrix) -> tuple[Matrix, list[Matrix]]:
        grads = [np.zeros_like(v) for v in vectors]
        grads[0] += d[:, : x.shape[1]]
        for k, (i, j) in enumerate(pairs):
            dz = d[:, x.shape[1] + k, None]
            grads[i] += dz * vectors[j]
            grads[j] += dz * vectors[i]
        return grads[0], grads[1:]

    return np.hstack([x, *products]), pull
