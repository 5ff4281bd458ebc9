"""An unsharded model of listed layers in plain float64 numpy, written apart from the executor and the lowering.

Tensors are (samples, places, channels). Every layer gives a function that turns the gradient of its output into those
of its inputs and parameters. What a list leaves out is as the executor has it (`archmodel.execute.listed`), written out
here as matrices: how tensors are brought to size, what tokens and vectors of tables a sample has, and the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isqrt

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.reference import Dense, Gradients, Inputs, Matrix, Model
from archmodel.workloads.layered import INPUT, Layered
from archmodel.workloads.layers import Attention, Conv, Exchange, Lookup, Lstm

Pull = Callable[[Matrix, Dense], None]
"""(gradient of the output, gradients to fill)."""


@dataclass
class _Pass:
    """Tensors by name, gradients added up so far, and the pulls in forward order."""

    tensors: dict[str, Matrix]
    gradients: dict[str, Matrix] = field(default_factory=dict)
    pulls: list[tuple[str, Pull]] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def add(self, name: str, gradient: Matrix) -> None:
        """One more reader's gradient of a tensor."""
        self.gradients[name] = self.gradients.get(name, 0.0) + gradient


@dataclass
class ListedModel(Model):
    """The model's state between steps, as of `Model`. `exchanged`: gradients that exchanges brought back, by layer, of
    the last `gradients`."""

    exchanged: dict[str, Matrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.workload, Layered):
            raise ExecutionError(
                f"there is no list of layers in workloads of kind {getattr(self.workload, 'kind', '?')}"
            )
        self._moments = {}

    def predict(self, batch: Inputs) -> Matrix:
        """For every sample the mean of all outputs that no layer takes, (B,)."""
        passed, ends = self._run(batch)
        outputs = [passed.tensors[e].reshape(len(batch.labels), -1) for e in ends]
        return np.asarray(np.concatenate(outputs, axis=1).mean(axis=1))

    def loss(self, batch: Inputs) -> float:
        """Mean over samples of half the mean square distance of every such output from the label."""
        passed, ends = self._run(batch)
        total = 0.0
        for end in ends:
            y = passed.tensors[end].reshape(len(batch.labels), -1)
            total += float(np.mean((y - batch.labels[:, None]) ** 2) / 2)
        return total

    def gradients(self, batch: Inputs) -> Gradients:
        passed, ends = self._run(batch)
        dense: Dense = {}
        for end in ends:
            y = passed.tensors[end]
            passed.add(end, (y - batch.labels[:, None, None]) / y.size)
        for name, pull in reversed(passed.pulls):
            pull(passed.gradients[name], dense)
        exchanges = [layer.name for layer in self.workload.layers() if isinstance(layer, Exchange)]
        self.exchanged = {name: passed.gradients[name] for name in exchanges}
        return Gradients(self.loss(batch), dense, [], [])

    def _run(self, batch: Inputs) -> tuple[_Pass, list[str]]:
        """All tensors, and the names of those that no layer takes."""
        passed = _Pass({INPUT: batch.dense[:, None, :]})
        tokens = 0
        layers = self.workload.layers()
        for layer in layers:
            if isinstance(layer, Lookup):
                self._lookup(layer, passed, batch, tokens)
                tokens += layer.tokens
            elif isinstance(layer, Exchange):
                columns = [c % batch.dense.shape[1] for c in range(layer.width)]
                passed.tensors[layer.name] = batch.dense[:, None, columns]
                passed.pulls.append((layer.name, lambda dy, grads: None))
            elif isinstance(layer, Conv):
                self._conv(layer, passed)
            elif isinstance(layer, Lstm):
                self._lstm(layer, passed)
            elif isinstance(layer, Attention):
                self._attention(layer, passed)
            else:
                raise ExecutionError(f"there is no reference for layers of kind {type(layer).__name__}")
        return passed, [layer.name for layer in layers if layer.name not in passed.taken]

    # --- layers -------------------------------------------------------------------------------------------------

    def _lookup(self, layer: Lookup, passed: _Pass, batch: Inputs, before: int) -> None:
        table = self.dense[f"{layer.name}.weight"]
        features = batch.dense.shape[1]
        ids = np.array(
            [
                [int(abs(row[(before + t) % features]) * 997.0) % layer.rows for t in range(layer.tokens)]
                for row in batch.dense
            ]
        )
        passed.tensors[layer.name] = np.eye(layer.rows)[ids] @ table

        def pull(dy: Matrix, grads: Dense) -> None:
            grads[f"{layer.name}.weight"] = np.einsum("btr,btw->rw", np.eye(layer.rows)[ids], dy)

        passed.pulls.append((layer.name, pull))

    def _conv(self, layer: Conv, passed: _Pass) -> None:
        """y_ij = sum_uv W_uv x_{s i + u - e, s j + v - e} + b, for images; of rows of places each by itself."""
        name, k, c = layer.name, layer.kernel, layer.in_channels
        flat, pull_in = _taken(layer.inputs, layer.in_positions, c, passed)
        w = self.dense[f"{name}.weight"].reshape(layer.out_channels, k, k, c)
        image = layer.kernel > 1 or layer.positions != layer.in_positions
        rows, columns = (isqrt(layer.positions),) * 2 if image else (layer.positions, 1)
        s = isqrt(layer.in_positions // layer.positions)
        edge = (k - 1) // 2
        x = np.zeros((len(flat), rows * s + k, columns * s + k, c))
        x[:, edge : edge + rows * s, edge : edge + columns * s] = flat.reshape(len(flat), rows * s, columns * s, c)

        def window(u: int, v: int) -> tuple[slice, slice, slice]:
            return slice(None), slice(u, u + rows * s, s), slice(v, v + columns * s, s)

        y = np.zeros((len(flat), rows, columns, layer.out_channels))
        for u in range(k):
            for v in range(k):
                y += np.tensordot(x[window(u, v)], w[:, u, v], axes=(3, 1))
        if layer.bias:
            y += self.dense[f"{name}.bias"]
        passed.tensors[name] = y.reshape(len(flat), layer.positions, -1)

        def pull(dy: Matrix, grads: Dense) -> None:
            d = dy.reshape(y.shape)
            dw, dx = np.zeros_like(w), np.zeros_like(x)
            for u in range(k):
                for v in range(k):
                    dw[:, u, v] = np.tensordot(d, x[window(u, v)], axes=((0, 1, 2), (0, 1, 2)))
                    dx[window(u, v)] += np.tensordot(d, w[:, u, v], axes=(3, 0))
            grads[f"{name}.weight"] = dw.reshape(layer.out_channels, -1)
            if layer.bias:
                grads[f"{name}.bias"] = d.sum(axis=(0, 1, 2))
            inside = dx[:, edge : edge + rows * s, edge : edge + columns * s]
            pull_in(inside.reshape(len(flat), -1, c))

        passed.pulls.append((name, pull))

    def _lstm(self, layer: Lstm, passed: _Pass) -> None:
        name, h, steps = layer.name, layer.hidden, layer.steps
        x, pull_in = _taken(layer.inputs, steps, layer.in_features, passed)
        w = self.dense[f"{name}.input"].reshape(layer.directions, 4, h, -1)
        u = self.dense[f"{name}.recurrent"].reshape(layer.directions, 4, h, h)
        b = self.dense[f"{name}.bias"].reshape(layer.directions, 4, h)
        saved: list[tuple[int, list[int], list[dict[str, Matrix]]]] = []
        out = np.zeros((len(x), steps, layer.directions * h))
        for d in range(layer.directions):
            order = list(range(steps)) if d == 0 else list(range(steps))[::-1]
            hidden, cell, kept = np.zeros((len(x), h)), np.zeros((len(x), h)), []
            for t in order:
                a = np.einsum("bi,ghi->gbh", x[:, t], w[d]) + np.einsum("bj,ghj->gbh", hidden, u[d]) + b[d][:, None]
                i, f, o = (np.exp(-np.logaddexp(0.0, -a[gate])) for gate in (0, 1, 3))
                g = np.tanh(a[2])
                new = f * cell + i * g
                kept.append({"i": i, "f": f, "g": g, "o": o, "c": new, "before": cell, "h": hidden})
                hidden, cell = o * np.tanh(new), new
                out[:, t, d * h : (d + 1) * h] = hidden
            saved.append((d, order, kept))
        passed.tensors[name] = out

        def pull(dy: Matrix, grads: Dense) -> None:
            dw, du, db, dx = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b), np.zeros_like(x)
            for d, order, kept in saved:
                dh, dc = np.zeros((len(x), h)), np.zeros((len(x), h))
                for t, k in zip(order[::-1], kept[::-1], strict=True):
                    dh = dh + dy[:, t, d * h : (d + 1) * h]
                    th = np.tanh(k["c"])
                    dc = dc + dh * k["o"] * (1 - th**2)
                    da = np.stack(
                        [
                            dc * k["g"] * k["i"] * (1 - k["i"]),
                            dc * k["before"] * k["f"] * (1 - k["f"]),
                            dc * k["i"] * (1 - k["g"] ** 2),
                            dh * th * k["o"] * (1 - k["o"]),
                        ]
                    )
                    dw[d] += np.einsum("gbh,bi->ghi", da, x[:, t])
                    du[d] += np.einsum("gbh,bj->ghj", da, k["h"])
                    db[d] += da.sum(axis=1)
                    dx[:, t] += np.einsum("gbh,ghi->bi", da, w[d])
                    dh, dc = np.einsum("gbh,ghj->bj", da, u[d]), dc * k["f"]
            grads[f"{name}.input"] = dw.reshape(layer.shapes["input"])
            grads[f"{name}.recurrent"] = du.reshape(layer.shapes["recurrent"])
            grads[f"{name}.bias"] = db.ravel()
            pull_in(dx)

        passed.pulls.append((name, pull))

    def _attention(self, layer: Attention, passed: _Pass) -> None:
        name = layer.name
        q, pull_q = _taken(layer.inputs[:1], layer.queries, layer.width, passed)
        k, pull_k = _taken(layer.inputs[1:] or layer.inputs, layer.keys, layer.width, passed)
        w, u, v = (self.dense[f"{name}.{part}"] for part in ("query", "key", "score"))
        t = np.tanh(np.einsum("bic,wc->biw", q, w)[:, :, None] + np.einsum("bjc,wc->bjw", k, u)[:, None])
        a = np.exp(np.einsum("bijw,w->bij", t, v))
        a = a / a.sum(axis=2, keepdims=True)
        passed.tensors[name] = np.einsum("bij,bjw->biw", a, k)

        def pull(dy: Matrix, grads: Dense) -> None:
            da = np.einsum("biw,bjw->bij", dy, k)
            ds = a * da - a * np.einsum("bij,bij->bi", a, da)[:, :, None]
            grads[f"{name}.score"] = np.einsum("bij,bijw->w", ds, t)
            dt = np.einsum("bij,w,bijw->bijw", ds, v, 1 - t**2)
            grads[f"{name}.query"] = np.einsum("bijw,bic->wc", dt, q)
            grads[f"{name}.key"] = np.einsum("bijw,bjc->wc", dt, k)
            pull_q(np.einsum("bijw,wc->bic", dt, w))
            pull_k(np.einsum("bijw,wc->bjc", dt, u) + np.einsum("bij,biw->bjw", a, dy))

        passed.pulls.append((name, pull))


# --- tensors brought to size ------------------------------------------------------------------------------------------


def _taken(names: Sequence[str], places: int, channels: int, passed: _Pass) -> tuple[Matrix, Callable[[Matrix], None]]:
    """What a layer takes of some tensors, (B, places, channels), as P x M for matrices P and M that are written out."""
    passed.taken.update(names)
    values = [passed.tensors[name] for name in names]
    if len(names) == 1 and values[0][0].size == places * channels:
        whole = values[0].shape

        def back(dx: Matrix) -> None:
            passed.add(names[0], dx.reshape(whole))

        return values[0].reshape(-1, places, channels), back
    rows = [_places(x.shape[1], places) for x in values]
    widths = [x.shape[2] for x in values]
    if all(width == channels for width in widths):
        columns = [np.eye(channels) for _ in widths]
    else:
        whole_columns = _channels(sum(widths), channels)
        starts = np.cumsum([0, *widths])
        columns = [whole_columns[a:b] for a, b in pairwise(starts)]
    taken = np.zeros((len(values[0]), places, channels))
    for r, x, m in zip(rows, values, columns, strict=True):
        taken += np.matmul(np.matmul(r, x), m)

    def pull(dx: Matrix) -> None:
        for name, r, m in zip(names, rows, columns, strict=True):
            passed.add(name, np.matmul(np.matmul(r.T, dx), m.T))

    return taken, pull


def _channels(have: int, need: int) -> Matrix:
    """(have, need): 1 wherever the two meet on their rounds."""
    found = np.zeros((have, need))
    for turn in range(max(have, need)):
        found[turn % have, turn % need] += 1.0
    return found


def _places(have: int, need: int) -> Matrix:
    """(need, have): means over equal blocks, or repetition; of square images over squares."""
    if have == need:
        return np.eye(have)
    if have < need:
        repeated = _places(need, have).T
        return np.asarray(repeated > 0, dtype=np.float64)
    a, b = isqrt(need), isqrt(have)
    found = np.zeros((need, have))
    for place in range(have):
        if a * a == need and b * b == have and b % a == 0:
            side = b // a
            block = (place // b) // side * a + (place % b) // side
        else:
            block = place * need // have
        found[block, place] = 1.0
    return np.asarray(found / found.sum(axis=1, keepdims=True))
