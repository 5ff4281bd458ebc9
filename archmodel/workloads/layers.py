"""Dense layers of a model as data. Each names the tensors that it reads and writes; `archmodel.parallel.dense` lowers
them. FLOPs count a multiply and an add as two, forward pass only, per sample."""

from __future__ import annotations

from dataclasses import dataclass


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


Layer = Linear | Dot | Concatenate | LowRankCross | BinaryCrossEntropy
DENSE_INPUT = "dense_features"
EMBEDDINGS = "embeddings"
