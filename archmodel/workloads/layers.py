"""Dense layers of a model as data. Each names the tensors that it reads and writes; `archmodel.parallel.dense` lowers
them. FLOPs count a multiply and an add as two, forward pass only, per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod


@dataclass(frozen=True, slots=True)
class Linear:
    """y = activation(x W^T + b), W (out_features, in_features)."""

    name: str
    input: str
    output: str
    in_features: int
    out_features: int
    relu: bool

    @property
    def parameters(self) -> int:
        return self.out_features * (self.in_features + 1)

    @property
    def flops_per_sample(self) -> int:
        return 2 * self.in_features * self.out_features


@dataclass(frozen=True, slots=True)
class Dot:
    """Concatenate `bottom` (if any) with the strict lower triangle of the pairwise dots of all feature vectors."""

    name: str
    bottom: str
    embeddings: str
    output: str
    features: int
    dim: int

    parameters = 0

    @property
    def pairs(self) -> int:
        return self.features * (self.features - 1) // 2

    @property
    def out_features(self) -> int:
        return self.dim + self.pairs

    @property
    def flops_per_sample(self) -> int:
        return 2 * self.features * self.features * self.dim


@dataclass(frozen=True, slots=True)
class Concatenate:
    """[bottom, embeddings] side by side."""

    name: str
    bottom: str
    embeddings: str
    output: str
    bottom_features: int
    embedding_features: int

    parameters = 0
    flops_per_sample = 0

    @property
    def out_features(self) -> int:
        return self.bottom_features + self.embedding_features


@dataclass(frozen=True, slots=True)
class LowRankCross:
    """x_{l+1} = x_0 * (W (V x_l) + b) + x_l, V (rank, features), W (features, rank); arXiv 2008.13535, eq. 2."""

    name: str
    base: str
    input: str
    output: str
    features: int
    rank: int

    @property
    def parameters(self) -> int:
        return 2 * self.features * self.rank + self.features

    @property
    def flops_per_sample(self) -> int:
        return 4 * self.features * self.rank + 3 * self.features


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy:
    """Mean binary cross-entropy of a logit against a click label, over the global batch."""

    name: str
    input: str

    parameters = 0
    flops_per_sample = 0


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution (kernel, kernel, in_channels) to out_channels at `positions` places of the output; a linear layer
    over `positions` tokens is one with kernel 1. `in_positions`: places of its input.

        operations = 2 positions kernel^2 in_channels out_channels
    """

    name: str
    inputs: tuple[str, ...]
    in_channels: int
    out_channels: int
    kernel: int
    positions: int
    in_positions: int
    bias: bool

    @property
    def output(self) -> str:
        return self.name

    @property
    def weights(self) -> dict[str, int]:
        """Elements of each parameter."""
        bias = {"bias": self.out_channels} if self.bias else {}
        return {"weight": self.in_channels * self.out_channels * self.kernel**2, **bias}

    @property
    def parameters(self) -> int:
        return sum(self.weights.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter: a row of the weight for each channel of the output, over (row, column, channel)."""
        bias = {"bias": (self.out_channels,)} if self.bias else {}
        return {"weight": (self.out_channels, self.kernel**2 * self.in_channels), **bias}

    @property
    def stride(self) -> int:
        """Places of input for one of output, along a side."""
        return isqrt(self.in_positions // self.positions)

    @property
    def flops_per_sample(self) -> int:
        return 2 * self.positions * self.kernel**2 * self.in_channels * self.out_channels

    @property
    def out_features(self) -> int:
        return self.positions * self.out_channels

    @property
    def out_shape(self) -> tuple[int, int]:
        """(places, channels) of the output."""
        return self.positions, self.out_channels

    @property
    def takes(self) -> tuple[tuple[tuple[str, ...], tuple[int, int]], ...]:
        """What it reads: tensors, and the (places, channels) that they are joined to."""
        return ((self.inputs, (self.in_positions, self.in_channels)),)


@dataclass(frozen=True, slots=True)
class Lstm:
    """A layer of LSTM cells (Hochreiter and Schmidhuber, 1997) over `steps` time steps, in one or both `directions`:

        (i, f, g, o) = W x_t + U h_{t-1} + b,   c_t = sigma(f) c_{t-1} + sigma(i) tanh(g),   h_t = sigma(o) tanh(c_t)

    W (4 hidden, inputs), U (4 hidden, hidden), b (4 hidden), for each direction.

        operations = 2 steps directions 4 hidden (inputs + hidden)     beside those of the cell itself
    """

    name: str
    inputs: tuple[str, ...]
    in_features: int
    hidden: int
    steps: int
    directions: int

    @property
    def output(self) -> str:
        return self.name

    @property
    def weights(self) -> dict[str, int]:
        """Elements of each parameter."""
        return {name: prod(shape) for name, shape in self.shapes.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter; gates in the order i, f, g, o, directions outermost."""
        gates = 4 * self.hidden
        return {
            "input": (self.directions * gates, self.in_features),
            "recurrent": (self.directions, gates, self.hidden),
            "bias": (self.directions * gates,),
        }

    @property
    def out_shape(self) -> tuple[int, int]:
        """(places, channels) of the output."""
        return self.steps, self.hidden * self.directions

    @property
    def takes(self) -> tuple[tuple[tuple[str, ...], tuple[int, int]], ...]:
        """What it reads: tensors, and the (places, channels) that they are joined to."""
        return ((self.inputs, (self.steps, self.in_features)),)

    @property
    def parameters(self) -> int:
        return sum(self.weights.values())

    @property
    def flops_per_sample(self) -> int:
        return 8 * self.steps * self.directions * self.hidden * (self.in_features + self.hidden)

    @property
    def out_features(self) -> int:
        return self.steps * self.hidden * self.directions


@dataclass(frozen=True, slots=True)
class Attention:
    """Additive attention (Bahdanau et al., arXiv 1409.0473): each of `queries` positions looks at all `keys` positions.

        score_ij = v^T tanh(W q_i + U k_j),   a_i = softmax_j(score_ij),   context_i = sum_j a_ij k_j

    W (width, width), U (width, width), v (width).

        operations = 2 width^2 (queries + keys) + 4 queries keys width     beside those of tanh and softmax
    """

    name: str
    inputs: tuple[str, ...]
    width: int
    queries: int
    keys: int

    @property
    def output(self) -> str:
        return self.name

    @property
    def weights(self) -> dict[str, int]:
        """Elements of each parameter."""
        return {name: prod(shape) for name, shape in self.shapes.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter."""
        return {"query": (self.width, self.width), "key": (self.width, self.width), "score": (self.width,)}

    @property
    def out_shape(self) -> tuple[int, int]:
        """(places, channels) of the output."""
        return self.queries, self.width

    @property
    def takes(self) -> tuple[tuple[tuple[str, ...], tuple[int, int]], ...]:
        """Queries from the first tensor that it reads, keys from the others (from the same, if there is one)."""
        keys = self.inputs[1:] or self.inputs
        return ((self.inputs[:1], (self.queries, self.width)), (keys, (self.keys, self.width)))

    @property
    def parameters(self) -> int:
        return sum(self.weights.values())

    @property
    def flops_per_sample(self) -> int:
        return 2 * self.width**2 * (self.queries + self.keys) + 4 * self.queries * self.keys * self.width

    @property
    def out_features(self) -> int:
        return self.queries * self.width


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table of tokens on every rank, whose gradient is dense: `tokens` rows of `width` are read for each sample."""

    name: str
    inputs: tuple[str, ...]
    rows: int
    width: int
    tokens: int

    flops_per_sample = 0

    @property
    def output(self) -> str:
        return self.name

    @property
    def weights(self) -> dict[str, int]:
        """Elements of each parameter."""
        return {"weight": self.rows * self.width}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter."""
        return {"weight": (self.rows, self.width)}

    @property
    def parameters(self) -> int:
        return self.rows * self.width

    @property
    def out_shape(self) -> tuple[int, int]:
        """(places, channels) of the output."""
        return self.tokens, self.width

    @property
    def takes(self) -> tuple[tuple[tuple[str, ...], tuple[int, int]], ...]:
        """Nothing that a gradient goes back to."""
        return ()

    @property
    def out_features(self) -> int:
        return self.tokens * self.width


@dataclass(frozen=True, slots=True)
class Exchange:
    """An all-to-all in which every rank sends `width` elements for each of its samples, equally to all ranks: vectors
    of model-parallel tables, and their gradients on the way back."""

    name: str
    inputs: tuple[str, ...]
    width: int

    parameters = 0
    flops_per_sample = 0

    @property
    def output(self) -> str:
        return self.name

    @property
    def weights(self) -> dict[str, int]:
        """None."""
        return {}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    @property
    def out_features(self) -> int:
        return self.width

    @property
    def out_shape(self) -> tuple[int, int]:
        """(places, channels) of the output."""
        return 1, self.width

    @property
    def takes(self) -> tuple[tuple[tuple[str, ...], tuple[int, int]], ...]:
        """Nothing that a gradient goes back to: its vectors come from tables that are not listed."""
        return ()


Listed = Conv | Lstm | Attention | Lookup | Exchange
"""Layers of workloads that list them."""
Layer = Linear | Dot | Concatenate | LowRankCross | BinaryCrossEntropy | Listed
DENSE_INPUT = "dense_features"
EMBEDDINGS = "embeddings"


def shares(widths: Sequence[int], needed: int) -> list[int]:
    """Elements per sample that a layer moves for each tensor that it reads, `widths` wide, when it needs `needed` in
    all: side by side each moves its own; else, added up or brought to size, each as many as are needed."""
    return list(widths) if sum(widths) == needed else [needed] * len(widths)


def unread(layers: Sequence[Layer]) -> list[str]:
    """Outputs of listed layers that no layer takes, in forward order: where gradients start."""
    listed = [layer for layer in layers if isinstance(layer, Listed)]
    taken = {name for layer in listed for names, _ in layer.takes for name in names}
    return [layer.output for layer in listed if layer.output not in taken]
