"""Measures the kernels of this machine's GPU into a table that `archmodel calibrate gpu` reads.

    python studies/measure_gpu.py --gpu a100_sxm_80gb -o measurements.csv
    archmodel calibrate gpu measurements.csv

Needs torch with CUDA, which archmodel does not (and nothing else of archmodel). About ten minutes for each format of
products; `--dry-run` writes the table without times, and needs nothing. What is measured, all in captured CUDA graphs,
medians of repeated replays:

    gemm     C = A B^T of random shapes; A stays, six copies of the weights B take turns, as archmodel's law means it
    lookup   pooled lookups in one large table; bytes as archmodel counts them: rows in 32-byte sectors, distinct too
    update   exact: gradient sort, segment sum and row-wise Adagrad of fbgemm_gpu (forward with backward, less forward);
             without it, the same in kernels of torch (unique, index_add), which take longer than fused ones
    copy     device to device, bytes read plus written
    launch   an all but empty kernel, per kernel: in a graph (graph=1), and issued one by one (graph=0)

What this GPU cannot do, or has no memory for, is left out and said. Exit codes: 0 measured; 2 bad arguments, no torch,
or no GPU here.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

COLUMNS = ("gpu", "kernel", "shape", "dtype", "time")
WEIGHT_COPIES = 6
SECTOR = 32
PAIR_BYTES = 8  # an index, and an offset of a bag
M = (1, 4, 16, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
N = (32, 64, 128, 256, 512, 1024, 1536, 2560, 4096, 5120, 8192, 16384)
K = (32, 64, 128, 256, 512, 1024, 1536, 2560, 4096, 5120, 8192, 16384)

COPIES = tuple(2**size for size in range(12, 31))
LOOKUPS = [
    (bags, pooling, width) for bags in (1024, 8192, 65_536) for pooling in (1, 10, 40) for width in (16, 64, 128)
]
FORMATS = {
    "bf16": "bfloat16", "fp16": "float16", "tf32": "float32", "fp32": "float32", "fp8": "float8_e4m3fn", "int8": "int8",
}  # fmt: skip
"""Formats of products, and what torch calls them; tf32 is how it may multiply float32."""
ITEMSIZE = {"bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4, "fp8": 1, "int8": 1}

Row = tuple[str, str, str, float | None]
"""Kernel, shape, dtype, seconds (None: not measured)."""


def shape_text(**amounts: float) -> str:
    """`m=4096 n=1024 k=512`"""
    return " ".join(f"{name}={amount:.15g}" for name, amount in amounts.items())


def gemm_shapes(count: int, seed: int, most_bytes: float, itemsize: int = 2) -> list[tuple[int, int, int]]:
    """`count` shapes of the grid M x N x K, drawn with `seed`, whose operands with all copies fit in `most_bytes`."""
    most = most_bytes / itemsize
    grid = [(m, n, k) for m in M for n in N for k in K if m * k + WEIGHT_COPIES * n * k + m * n <= most]
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
    times: list[float] = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / kernels)
    return statistics.median(times)


def attempted(what: str, measure: Callable[[], float]) -> float | None:
    """Its seconds; None, and a word on standard error, where this GPU or torch cannot."""
    try:
        return measure()
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        print(f"left out: {what}: {str(error).partition(chr(10))[0][:120]}", file=sys.stderr)
        return None


def operand(torch: Any, dtype: str, *shape: int) -> Any:
    """A random matrix on the GPU."""
    element = getattr(torch, FORMATS[dtype])
    if dtype == "int8":
        return torch.randint(-8, 8, shape, device="cuda", dtype=element)
    return torch.randn(*shape, device="cuda").to(element)


def multiply(torch: Any, dtype: str, a: Any, b: Any) -> Any:
    """A B^T."""
    if dtype == "int8":
        return torch._int_mm(a, b.t())
    if dtype == "fp8":
        return torch._scaled_mm(a, b.t(), scale_of(torch), scale_of(torch), out_dtype=torch.bfloat16)
    return torch.nn.functional.linear(a, b)


@cache
def scale_of(torch: Any) -> Any:
    return torch.ones((), device="cuda")


def measure_gemm(torch: Any, m: int, n: int, k: int, dtype: str) -> float:
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    a = operand(torch, dtype, m, k)
    weights = [operand(torch, dtype, n, k) for _ in range(WEIGHT_COPIES)]

    def products() -> None:
        for b in weights:
            multiply(torch, dtype, a, b)

    return timed(torch, products, WEIGHT_COPIES)


def measure_gemms(torch: Any, shapes: list[tuple[int, int, int]], dtype: str) -> Iterator[Row]:
    for m, n, k in shapes:
        shape = shape_text(m=m, n=n, k=k)
        yield "gemm", shape, dtype, attempted(f"gemm {dtype} {shape}", partial(measure_gemm, torch, m, n, k, dtype))


def measure_copies(torch: Any) -> Iterator[Row]:
    """Between as many buffers as it takes to leave any L2, up to 64."""
    for bytes_ in COPIES:
        pairs = min(64, max(2, 2**29 // bytes_))
        buffers = [torch.zeros(bytes_ // 2, device="cuda", dtype=torch.uint8) for _ in range(2 * pairs)]

        def copies(buffers: Any = buffers) -> None:
            for source, target in zip(buffers[::2], buffers[1::2], strict=True):
                target.copy_(source)

        yield "copy", shape_text(bytes=bytes_), "uint8", timed(torch, copies, pairs)


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
        print("fbgemm_gpu is not installed: exact updates are torch's, slower than fused ones", file=sys.stderr)
        yield from measure_unfused_updates(torch, rows)
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


def measure_unfused_updates(torch: Any, rows: int) -> Iterator[Row]:
    for bags, pooling, width in LOOKUPS:
        table, state = torch.zeros(rows, width, device="cuda"), torch.zeros(rows, device="cuda")
        indices, _, distinct = draw(torch, rows, bags, pooling)
        gradient = torch.ones(bags, width, device="cuda")
        bag_of = torch.arange(bags, device="cuda").repeat_interleave(pooling)
        update = partial(rowwise_adagrad, torch, table, state, indices, bag_of, gradient)
        shape = shape_text(**update_bytes(bags * pooling, distinct, bags, width, 4))
        yield "update", shape, "fp32", attempted(f"update {shape}", partial(queued, torch, update))


def rowwise_adagrad(torch: Any, table: Any, state: Any, indices: Any, bag_of: Any, gradient: Any) -> None:
    """Exact update in place: gradients of equal indices are summed first, then each row takes one step."""
    distinct, place = torch.unique(indices, return_inverse=True)
    total = torch.zeros(len(distinct), table.shape[1], device=table.device)
    total.index_add_(0, place, gradient.index_select(0, bag_of))
    state.index_add_(0, distinct, total.square().mean(dim=1))
    step = total / (state.index_select(0, distinct).sqrt() + 1e-8).unsqueeze(1)
    table.index_add_(0, distinct, step, alpha=-0.01)


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


def write(rows: Iterator[Row], gpu: str, file: Path, *, planned: bool = False) -> int:
    """Writes rows as they come, so that an interrupted run leaves a table; how many there were. Rows without a time
    are left out unless they are a plan."""
    count = 0
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        for kernel, shape, dtype, seconds in rows:
            if seconds is None and not planned:
                continue
            table.writerow((gpu, kernel, shape, dtype, "" if seconds is None else f"{seconds * 1e6:.6g} us"))
            stream.flush()
            count += 1
    return count


def plan(chosen: argparse.Namespace, memory: float = 80e9) -> Iterator[Row]:
    """The rows that a GPU with `memory` bytes would be asked for, distinct rows as expected of uniform indices."""
    rows = rows_of(memory)
    yield from (("launch", shape_text(graph=graph), "fp32", None) for graph in (1, 0))
    yield from (("copy", shape_text(bytes=bytes_), "uint8", None) for bytes_ in COPIES)
    for kernel, count in (("lookup", lookup_bytes), ("update", update_bytes)):
        for bags, pooling, width in LOOKUPS:
            distinct = round(-rows * math.expm1(bags * pooling * math.log1p(-1 / rows)))
            yield kernel, shape_text(**count(bags * pooling, distinct, bags, width, 4)), "fp32", None
    for dtype, shapes in gemms_of(chosen, memory):
        yield from (("gemm", shape_text(m=m, n=n, k=k), dtype, None) for m, n, k in shapes)


def rows_of(memory: float) -> int:
    """Rows of the table that is looked up in."""
    return min(10_000_000, int(memory * 0.25 / (128 * 4)))


def gemms_of(chosen: argparse.Namespace, memory: float) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
    for dtype in chosen.dtypes:
        yield dtype, gemm_shapes(chosen.gemms, chosen.seed, 0.5 * memory, ITEMSIZE[dtype])


def measurements(torch: Any, chosen: argparse.Namespace) -> Iterator[Row]:
    memory = torch.cuda.get_device_properties(0).total_memory
    rows = rows_of(memory)
    yield from measure_launches(torch)
    yield from measure_copies(torch)
    yield from measure_lookups(torch, rows)
    yield from measure_updates(torch, rows)
    for dtype, shapes in gemms_of(chosen, memory):
        yield from measure_gemms(torch, shapes, dtype)


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("measurements.csv"))
    parser.add_argument("--gpu", default="", help="a device of the catalogue, e.g. a100_sxm_80gb (else: torch's name)")
    parser.add_argument("--gemms", type=int, default=600, help="how many products of each format")
    parser.add_argument("--dtypes", nargs="+", choices=FORMATS, default=["bf16"], help="formats of products")
    parser.add_argument("--seed", type=int, default=0, help="which products are drawn")
    parser.add_argument("--dry-run", action="store_true", help="write the table without times; needs no torch, no GPU")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    chosen = options(arguments)
    if chosen.dry_run:
        count = write(plan(chosen), chosen.gpu, chosen.output, planned=True)
        print(f"{count} measurements to make in {chosen.output}")
        return 0
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
