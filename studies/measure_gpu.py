#!/usr/bin/env python3
"""Measures the kernels of your GPU, for `archmodel calibrate gpu`. Needs PyTorch and a GPU, and nothing of archmodel.

    python studies/measure_gpu.py -o my_gpu.csv
    archmodel calibrate gpu my_gpu.csv -o my_gpu.yaml

Times are medians over repeats of the mean of a run of equal kernels, taken by CUDA events after a warm-up. The run is
captured in a CUDA graph, so that a time is that of the kernel and the gap before it, not of Python; what cannot be
captured, and `launch_eager`, is issued one by one. A few minutes; `--quick` takes a few seconds.

One row per kernel; `time_us` is of one kernel, `bytes` what it asks of memory before any cache, at least:

    gemm          C[m, n] = A[m, k] B[k, n], `batch` times; operands stay in the L2 cache as far as they fit
    copy          `bytes` read plus written
    lookup        pooled sum of k rows of n elements for each of m bags, from a table of `batch` rows;
                  `indices` rows, `unique` of them distinct
    sort          `indices` pairs of a 4-byte key and an 8-byte position
    update        `unique` distinct rows of n elements in place: row += gradient
    exact_update  sort, sum of the gradients of equal rows, update: `indices` rows of n elements, `unique` distinct, as
                  separate PyTorch kernels (a fused one is faster)
    launch_eager  an all but empty kernel, issued one by one
    launch_graph  the same within a captured graph
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, TextIO

Run = Callable[[], object]

ITEMSIZE = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
TORCH_NAME = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16",
    "fp8": "float8_e4m3fn", "int8": "int8",
}  # fmt: skip
ENOUGH = 2e-3
"""Seconds that a timed run of kernels should last."""


@dataclass(frozen=True)
class Case:
    """One row of the table; numbers that mean nothing for a kernel are 0."""

    kernel: str
    dtype: str
    m: int = 0
    n: int = 0
    k: int = 0
    batch: int = 1
    bytes: int = 0
    indices: int = 0
    unique: int = 0


COLUMNS = (*(field.name for field in fields(Case)), "time_us", "gpu")


# --- what is measured ------------------------------------------------------------------------------------------


def cases(dtypes: Sequence[str], kernels: Sequence[str], quick: bool) -> Iterator[Case]:
    """Every case, small ones first; `unique` is filled in when the indices are drawn."""
    for kernel in kernels:
        yield from GRIDS[kernel](dtypes, quick)


def gemms(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    rows = (1, 64, 1024, 8192) if quick else (1, 16, 64, 256, 1000, 1024, 4096, 16384)
    sides = (128, 1024, 4096) if quick else (32, 64, 128, 256, 512, 1000, 1024, 4096, 8192)
    for dtype in dtypes:
        for m, n, k in product(rows, sides, sides):
            if 2 * m * n * k <= 2**40:
                yield gemm(dtype, m, n, k)
        for batch in (1024, 8192, 65536):
            yield gemm(dtype, 27, 27, 128, batch)  # the dot interaction of DLRM
            yield gemm(dtype, 27, 128, 27, batch)


def gemm(dtype: str, m: int, n: int, k: int, batch: int = 1) -> Case:
    return Case("gemm", dtype, m, n, k, batch, (m * k + k * n + m * n) * batch * ITEMSIZE[dtype])


def copies(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    for power in range(12, 33, 4 if quick else 1):
        yield Case("copy", "fp32", bytes=2**power)


def lookups(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    for dtype, (table, width, bags, pooling) in product(_stored(dtypes), _tables(quick)):
        indices = bags * pooling
        moved = indices * (width * ITEMSIZE[dtype] + 8) + bags * (width * ITEMSIZE[dtype] + 8)
        yield Case("lookup", dtype, bags, width, pooling, table, moved, indices)


def sorts(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    for power in range(12, 27, 4 if quick else 2):
        yield Case("sort", "int32", indices=2**power, bytes=2**power * 2 * (4 + 8))


def updates(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    for dtype, (table, width, bags, _) in product(_stored(dtypes), _tables(quick)):
        yield Case("update", dtype, n=width, batch=table, indices=bags, unique=bags)


def exact_updates(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    for dtype, (table, width, bags, pooling) in product(_stored(dtypes), _tables(quick)):
        yield Case("exact_update", dtype, bags, width, pooling, table, indices=bags * pooling)


def launches(dtypes: Sequence[str], quick: bool) -> Iterator[Case]:
    yield Case("launch_eager", "fp32", bytes=8)
    yield Case("launch_graph", "fp32", bytes=8)


def _stored(dtypes: Sequence[str]) -> list[str]:
    """Formats of tables among `dtypes`; tf32 is stored as fp32."""
    return [dtype for dtype in ("fp32", "bf16", "fp16") if dtype in dtypes or (dtype == "fp32" and "tf32" in dtypes)]


def _tables(quick: bool) -> Iterator[tuple[int, int, int, int]]:
    """(rows of the table, width, bags, pooling)"""
    widths, bags = ((128,), (8192,)) if quick else ((16, 32, 64, 128, 256), (2048, 65536))
    yield from product((100_000, 5_000_000), widths, bags, (1, 20))


GRIDS: dict[str, Callable[[Sequence[str], bool], Iterator[Case]]] = {
    "gemm": gemms,
    "copy": copies,
    "lookup": lookups,
    "sort": sorts,
    "update": updates,
    "exact_update": exact_updates,
    "launch": launches,
}


# --- how it is measured ----------------------------------------------------------------------------------------


class Bench:
    """Prepares and times kernels on one device of PyTorch."""

    def __init__(self, torch: Any, device: str, repeats: int) -> None:
        self.torch, self.device, self.repeats = torch, device, repeats
        self.cuda = device.startswith("cuda")
        self.random = torch.Generator(device=device).manual_seed(0)

    @property
    def name(self) -> str:
        return str(self.torch.cuda.get_device_name(self.device)) if self.cuda else "cpu"

    def measure(self, case: Case) -> tuple[Case, float]:
        """The case with what is known only now, and the seconds of one kernel."""
        prepare: Callable[[Case], tuple[Case, Run]] = getattr(self, f"_{case.kernel}")
        case, run = prepare(case)
        return case, self.seconds(run, capture=case.kernel != "launch_eager")

    def seconds(self, run: Run, capture: bool) -> float:
        """Median over repeats of the mean time of one kernel in a run of them."""
        for _ in range(3):
            run()
        once = self._elapsed(run, 1)
        count = max(1, min(1000, math.ceil(ENOUGH / max(once, 1e-7))))
        batch = self._captured(run, count) if capture and self.cuda else None
        if batch is None:
            return statistics.median(self._elapsed(run, count) / count for _ in range(self.repeats))
        batch()
        return statistics.median(self._elapsed(batch, 1) / count for _ in range(self.repeats))

    def _elapsed(self, run: Run, count: int) -> float:
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(count):
                run()
            return time.perf_counter() - start
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        begin.record()
        for _ in range(count):
            run()
        end.record()
        self.torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def _captured(self, run: Run, count: int) -> Run | None:
        """`count` kernels as one CUDA graph; None where they cannot be captured (they wait for the host)."""
        graph = self.torch.cuda.CUDAGraph()
        try:
            with self.torch.cuda.graph(graph):
                for _ in range(count):
                    run()
        except RuntimeError:
            self.torch.cuda.synchronize()
            return None
        replay: Run = graph.replay
        return replay

    def _matrix(self, dtype: str, *shape: int) -> Any:
        kind = getattr(self.torch, TORCH_NAME[dtype])
        if dtype == "int8":
            return self.torch.randint(-8, 8, shape, dtype=kind, device=self.device, generator=self.random)
        return self.torch.randn(shape, device=self.device, generator=self.random).to(kind)

    def _rows(self, count: int, table: int) -> Any:
        return self.torch.randint(0, table, (count,), device=self.device, generator=self.random)

    def _gemm(self, case: Case) -> tuple[Case, Run]:
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
        many = (case.batch,) if case.batch > 1 else ()
        a, b = self._matrix(case.dtype, *many, case.m, case.k), self._matrix(case.dtype, *many, case.k, case.n)
        if case.dtype == "int8":
            return case, lambda: torch._int_mm(a, b)
        if case.dtype == "fp8":
            one, columns = torch.ones((), device=self.device), b.t().contiguous().t()
            return case, lambda: torch._scaled_mm(a, columns, one, one, out_dtype=torch.bfloat16)
        out = torch.empty((*many, case.m, case.n), dtype=a.dtype, device=self.device)
        return case, lambda: torch.matmul(a, b, out=out)

    def _copy(self, case: Case) -> tuple[Case, Run]:
        source = self.torch.ones(case.bytes // 8, device=self.device)
        target = self.torch.empty_like(source)
        return case, lambda: target.copy_(source)

    def _lookup(self, case: Case) -> tuple[Case, Run]:
        table = self._matrix(case.dtype, case.batch, case.n)
        rows = self._rows(case.indices, case.batch)
        bags = self.torch.arange(0, case.indices, case.k, device=self.device)
        bag = self.torch.nn.functional.embedding_bag
        return replace(case, unique=len(self.torch.unique(rows))), lambda: bag(rows, table, bags, mode="sum")

    def _sort(self, case: Case) -> tuple[Case, Run]:
        keys = self._rows(case.indices, 2**31 - 1).to(self.torch.int32)
        return replace(case, unique=len(self.torch.unique(keys))), lambda: self.torch.sort(keys)

    def _update(self, case: Case) -> tuple[Case, Run]:
        table = self._matrix(case.dtype, case.batch, case.n)
        rows = self.torch.unique(self._rows(case.indices, case.batch))
        gradients = self._matrix(case.dtype, len(rows), case.n)
        moved = len(rows) * (3 * case.n * ITEMSIZE[case.dtype] + 8)
        known = replace(case, indices=len(rows), unique=len(rows), bytes=moved)
        return known, lambda: table.index_add_(0, rows, gradients, alpha=-1e-3)

    def _exact_update(self, case: Case) -> tuple[Case, Run]:
        torch = self.torch
        table = self._matrix(case.dtype, case.batch, case.n)
        rows = self._rows(case.indices, case.batch)
        pooled = self._matrix(case.dtype, case.m, case.n)
        bag_of = torch.arange(case.m, device=self.device).repeat_interleave(case.k)

        def run() -> None:
            distinct, place = torch.unique(rows, return_inverse=True)
            gradients = torch.zeros((len(distinct), case.n), dtype=table.dtype, device=self.device)
            gradients.index_add_(0, place, pooled.index_select(0, bag_of))
            table.index_add_(0, distinct, gradients, alpha=-1e-3)

        unique = len(torch.unique(rows))
        moved = (case.indices + 2 * unique) * case.n * ITEMSIZE[case.dtype] + case.indices * 8
        return replace(case, unique=unique, bytes=moved), run

    def _launch_eager(self, case: Case) -> tuple[Case, Run]:
        one = self.torch.zeros(1, device=self.device)
        return case, lambda: one.add_(1)

    _launch_graph = _launch_eager


def measure_all(bench: Bench, wanted: Sequence[Case], out: TextIO) -> int:
    """Writes a row per case that could be measured; returns how many could not."""
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    left_out = 0
    for number, case in enumerate(wanted, 1):
        print(f"\r{number} of {len(wanted)}  {case.kernel} {case.dtype}".ljust(60), end="", file=sys.stderr)
        try:
            case, seconds = bench.measure(case)
        except (RuntimeError, AttributeError, NotImplementedError) as error:  # no memory, or no such kernel here
            left_out += 1
            reason = str(error).partition("\n")[0][:120]
            print(f"\nleft out: {case.kernel} {case.dtype} {case.m} x {case.n} x {case.k}: {reason}", file=sys.stderr)
            continue
        table.writerow([*(getattr(case, field.name) for field in fields(case)), f"{seconds * 1e6:.4g}", bench.name])
        out.flush()
    print(file=sys.stderr)
    return left_out


# --- command line ----------------------------------------------------------------------------------------------


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="table to write (default: standard output)")
    parser.add_argument("--kernels", nargs="+", choices=GRIDS, default=list(GRIDS), help="what to measure")
    parser.add_argument(
        "--dtypes", nargs="+", choices=ITEMSIZE, default=["bf16", "fp16", "tf32", "fp32"], help="formats of products"
    )
    parser.add_argument("--quick", action="store_true", help="a small grid, to see whether it works")
    parser.add_argument("--repeats", type=int, default=11, help="timed runs per row, of which the median counts")
    parser.add_argument("--device", default="cuda", help='"cuda", "cuda:1", ... or "cpu", to try the script out')
    parser.add_argument("--dry-run", action="store_true", help="write the rows without times; needs no PyTorch")
    options = parser.parse_args(argv)
    if options.repeats < 1:
        parser.error("--repeats must be 1 or more")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """0 when something was measured, 1 when nothing can be here, 2 for bad arguments."""
    options = arguments(argv)
    wanted = list(cases(options.dtypes, options.kernels, options.quick))
    if options.dry_run:
        with opened(options.output) as out:
            table = csv.writer(out, lineterminator="\n")
            table.writerow(COLUMNS)
            table.writerows([*(getattr(case, field.name) for field in fields(case)), "", ""] for case in wanted)
        return 0
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here; see https://pytorch.org, or --dry-run to see the grid", file=sys.stderr)
        return 1
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("PyTorch finds no CUDA GPU here; --device cpu tries the script out", file=sys.stderr)
        return 1
    bench = Bench(torch, options.device, options.repeats)
    with opened(options.output) as out:
        left_out = measure_all(bench, wanted, out)
    print(f"{len(wanted) - left_out} of {len(wanted)} kernels measured on {bench.name}", file=sys.stderr)
    return 0 if left_out < len(wanted) else 1


def opened(path: str) -> Any:
    """The file to write, or standard output left open."""
    return open(sys.stdout.fileno(), "w", closefd=False) if path == "-" else open(path, "w", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
