"""Measures the kernels of this machine's GPU into a table that `archmodel calibrate gpu` reads.

    python studies/measure_gpu.py --gpu a100_sxm_80gb -o measurements.csv
    archmodel calibrate gpu measurements.csv

Needs torch with CUDA, which archmodel does not (and nothing else of archmodel); fbgemm_gpu, when it is there, gives the
exact update. About ten minutes. What is measured, all in captured CUDA graphs, medians of repeated replays:

    gemm     C = A B^T of random shapes; A stays, six copies of the weights B take turns, as archmodel's law means it
    lookup   pooled lookups in one large table; bytes as archmodel counts them: rows in 32-byte sectors, distinct too
    update   gradient sort, segment sum and row-wise Adagrad of FBGEMM: forward with backward, less forward
    copy     device to device, bytes read plus written
    launch   an all but empty kernel, per kernel: in a graph (graph=1), and issued one by one (graph=0)
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS = ("gpu", "kernel", "shape", "dtype", "time")
WEIGHT_COPIES = 6
SECTOR = 32
PAIR_BYTES = 8  # an index, and an offset of a bag
M = (1, 4, 16, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
N = (32, 64, 128, 256, 512, 1024, 1536, 2560, 4096, 5120, 8192, 16384)
K = (32, 64, 128, 256, 512, 1024, 1536, 2560, 4096, 5120, 8192, 16384)

Row = tuple[str, str, str, float]
"""Kernel, shape, dtype, seconds."""


def shape_text(**amounts: float) -> str:
    """`m=4096 n=1024 k=512`"""
    return " ".join(f"{name}={amount:.15g}" for name, amount in amounts.items())


def gemm_shapes(count: int, seed: int, most_bytes: float) -> list[tuple[int, int, int]]:
    """`count` shapes of the grid M x N x K, drawn with `seed`, whose operands with all copies fit in `most_bytes`."""
    grid = [(m, n, k) for m in M for n in N for k in K if 2 * (m * k + WEIGHT_COPIES * n * k + m * n) <= most_bytes]
    return sorted(random.Random(seed).sample(grid, min(count, len(grid))))


def sectors(row_bytes: int) -> int:
    """Bytes that a row costs at the granularity of an L2 sector."""
    return math.ceil(row_bytes / SECTOR) * SECTOR


def lookup_bytes(indices: int, distinct: int, bags: int, width: int, itemsize: int) -> dict[str, float]:
    """Demanded and distinct bytes of rows, and streamed bytes (indices, offsets, results) of a pooled lookup."""
    row = sectors(width * itemsize)
    return {
        "demanded_bytes": float(indices * row),
        "unique_bytes": float(distinct * row),
        "streamed_bytes": float((indices + bags) * PAIR_BYTES + bags * width * itemsize),
    }


def update_bytes(indices: int, distinct: int, bags: int, width: int, itemsize: int) -> dict[str, float]:
    """What an exact row-wise Adagrad update moves: gradients gathered, rows and one float32 of state both ways."""
    return {
        "indices": float(indices),
        "gradient_bytes": float(indices * sectors(width * itemsize)),
        "gradient_unique_bytes": float(bags * width * itemsize),
        "row_bytes": float(2 * distinct * (sectors(width * itemsize) + SECTOR)),
        "streamed_bytes": float((indices + bags) * PAIR_BYTES),
    }


# --- timing --------------------------------------------------------------------------------------------------


def timed(torch: Any, work: Callable[[], object], kernels: int, replays: int = 7) -> float:
    """Seconds of one of the `kernels` that `work` issues: captured in a graph, replayed, median."""
    warm_up = torch.cuda.Stream()
    with torch.cuda.stream(warm_up):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(warm_up)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / kernels)
    return statistics.median(times)


def measure_gemms(torch: Any, shapes: list[tuple[int, int, int]], dtype: str) -> Iterator[Row]:
    element = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    for m, n, k in shapes:
        a = torch.randn(m, k, device="cuda", dtype=element)
        weights = [torch.randn(n, k, device="cuda", dtype=element) for _ in range(WEIGHT_COPIES)]

        def products(a: Any = a, weights: list[Any] = weights) -> None:
            for b in weights:
                torch.nn.functional.linear(a, b)

        yield "gemm", shape_text(m=m, n=n, k=k), dtype, timed(torch, products, WEIGHT_COPIES)


def measure_copies(torch: Any) -> Iterator[Row]:
    """Between as many buffers as it takes to leave any L2, up to 64."""
    for bytes_ in (2**size for size in range(12, 31)):
        pairs = min(64, max(2, 2**29 // bytes_))
        buffers = [torch.zeros(bytes_ // 2, device="cuda", dtype=torch.uint8) for _ in range(2 * pairs)]

        def copies(buffers: Any = buffers) -> None:
            for source, target in zip(buffers[::2], buffers[1::2], strict=True):
                target.copy_(source)

        yield "copy", shape_text(bytes=bytes_), "uint8", timed(torch, copies, pairs)


LOOKUPS = [
    (bags, pooling, width) for bags in (1024, 8192, 65_536) for pooling in (1, 10, 40) for width in (16, 64, 128)
]


def draw(torch: Any, rows: int, bags: int, pooling: int) -> tuple[Any, Any, int]:
    """Uniform indices, offsets of equal bags, and how many indices are distinct."""
    indices = torch.randint(rows, (bags * pooling,), device="cuda")
    offsets = torch.arange(0, bags * pooling + 1, pooling, device="cuda")
    return indices, offsets, int(torch.unique(indices).numel())


def measure_lookups(torch: Any, rows: int) -> Iterator[Row]:
    for bags, pooling, width in LOOKUPS:
        table = torch.zeros(rows, width, device="cuda", dtype=torch.float32)
        indices, offsets, distinct = draw(torch, rows, bags, pooling)

        def lookup(table: Any = table, indices: Any = indices, offsets: Any = offsets) -> None:
            torch.nn.functional.embedding_bag(indices, table, offsets[:-1], mode="sum")

        shape = lookup_bytes(bags * pooling, distinct, bags, width, 4)
        yield "lookup", shape_text(**shape), "fp32", timed(torch, lookup, 1)


def measure_updates(torch: Any, rows: int) -> Iterator[Row]:
    try:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice,
            SplitTableBatchedEmbeddingBagsCodegen,
        )
    except ImportError:
        print("fbgemm_gpu is not installed: no exact update is measured", file=sys.stderr)
        return
    for bags, pooling, width in LOOKUPS:
        module = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, width, EmbeddingLocation.DEVICE, ComputeDevice.CUDA)], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD
        )
        indices, offsets, distinct = draw(torch, rows, bags, pooling)
        gradient = torch.ones(bags, width, device="cuda")

        def forward(module: Any = module, indices: Any = indices, offsets: Any = offsets) -> Any:
            return module(indices, offsets)

        def both(gradient: Any = gradient, forward: Callable[[], Any] = forward) -> None:
            forward().backward(gradient)

        seconds = queued(torch, both) - queued(torch, forward)
        if seconds > 0:
            yield "update", shape_text(**update_bytes(bags * pooling, distinct, bags, width, 4)), "fp32", seconds


def queued(torch: Any, work: Callable[[], object], repeats: int = 20) -> float:
    """Seconds of `work` issued back to back: for what cannot be captured in a graph."""
    for _ in range(3):
        work()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3 / repeats


def measure_launches(torch: Any) -> Iterator[Row]:
    few = torch.zeros(32, device="cuda")

    def empty(count: int = 1000) -> None:
        for _ in range(count):
            few.add_(1.0)

    yield "launch", shape_text(graph=1), "fp32", timed(torch, empty, 1000)
    yield "launch", shape_text(graph=0), "fp32", queued(torch, empty) / 1000


# --- the table -----------------------------------------------------------------------------------------------


def write(rows: Iterator[Row], gpu: str, file: Path) -> int:
    """Writes rows as they come, so that an interrupted run leaves a table; how many there were."""
    count = 0
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        for kernel, shape, dtype, seconds in rows:
            table.writerow((gpu, kernel, shape, dtype, f"{seconds * 1e6:.6g} us"))
            stream.flush()
            count += 1
    return count


def measurements(torch: Any, arguments: argparse.Namespace) -> Iterator[Row]:
    memory = torch.cuda.get_device_properties(0).total_memory
    rows = min(10_000_000, int(memory * 0.25 / (128 * 4)))
    yield from measure_launches(torch)
    yield from measure_copies(torch)
    yield from measure_lookups(torch, rows)
    yield from measure_updates(torch, rows)
    yield from measure_gemms(torch, gemm_shapes(arguments.gemms, arguments.seed, 0.5 * memory), arguments.dtype)


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("measurements.csv"))
    parser.add_argument("--gpu", default="", help="a device of the catalogue, e.g. a100_sxm_80gb (else: torch's name)")
    parser.add_argument("--gemms", type=int, default=600, help="how many products")
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    chosen = options(arguments)
    try:
        import torch
    except ImportError:
        print("measure_gpu.py needs torch with CUDA: pip install torch", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("measure_gpu.py needs a GPU; torch sees none", file=sys.stderr)
        return 2
    gpu = chosen.gpu or torch.cuda.get_device_name(0)
    count = write(measurements(torch, chosen), gpu, chosen.output)
    print(f"{count} measurements of {gpu} in {chosen.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
