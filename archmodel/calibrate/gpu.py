"""Fits the kernel constants of a GPU to a table of measured times, and says how well they predict rows left out.

The datasheet (rates, memory, SMs) is given; fitted are, for each kind of row in the table: the launch overheads, the
achieved shares of memory bandwidth of copies, lookups and updates, and the ten constants of matrix products. What is
fitted is the law that is used: residuals come from the device itself.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel import catalogue, source
from archmodel.calibrate import gemm_fit
from archmodel.calibrate.gemm_fit import Products
from archmodel.calibrate.measurements import Measurement, of_one_gpu, read
from archmodel.components.gpu import GemmConstants, Gpu
from archmodel.errors import ArchmodelError, suggestion
from archmodel.quantities import Array, itemsize

_Fit = Callable[[Gpu, tuple[Measurement, ...], int], tuple[Gpu, "KernelFit"]]
"""From the GPU so far, the rows of a kernel and a seed: the GPU with its constants, and how they were found."""

SEED = 0
"""Which half of the rows is fitted."""
DIGITS = 3
"""Of fitted constants, as written and as judged."""


@dataclass(frozen=True, slots=True)
class KernelFit:
    """One kind of kernel: its rows, which of them were fitted, predicted / measured - 1 of each, and the constants."""

    kernel: str
    rows: tuple[Measurement, ...]
    fitted: npt.NDArray[np.bool_]
    errors: Array
    constants: dict[str, float]
    kept: str = ""
    """Which of the constants were not fitted, in words."""

    @property
    def seconds(self) -> Array:
        return np.array([row.seconds for row in self.rows])

    @property
    def error(self) -> float:
        """Mean absolute relative error on the rows that were fitted."""
        return float(np.abs(self.errors[self.fitted]).mean())

    @property
    def error_left_out(self) -> float | None:
        """The same on the rows that were not; None when all were."""
        return None if self.fitted.all() else float(np.abs(self.errors[~self.fitted]).mean())

    def worst(self, count: int = 5) -> list[tuple[Measurement, float]]:
        """The rows predicted worst, with their errors."""
        order = np.argsort(-np.abs(self.errors), kind="stable")[:count]
        return [(self.rows[i], float(self.errors[i])) for i in order]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A GPU with fitted constants (`gpu`), how each was found (`fits`), and where from."""

    gpu: Gpu
    fits: tuple[KernelFit, ...]
    measurements: str
    date: datetime.date

    def fitted_on(self, fit: KernelFit) -> str:
        """What the constants of a kernel were fitted on, in words."""
        text = f"{int(fit.fitted.sum())} of {len(fit.rows)} {fit.kernel} rows of {self.measurements}, {self.date}"
        text += f"; {fit.kept}" if fit.kept else ""
        text += f"; mean absolute error {100 * fit.error:.1f} % there"
        left_out = fit.error_left_out
        return text if left_out is None else f"{text}, {100 * left_out:.1f} % on the rows left out"

    def residuals(self) -> list[dict[str, Any]]:
        """One record per kernel: rows, errors (mean absolute on fitted and left-out rows, median, 90 % point), bias."""
        return [
            {
                "kernel": fit.kernel,
                "rows": len(fit.rows),
                "fitted_rows": int(fit.fitted.sum()),
                "error": fit.error,
                "error_left_out": fit.error_left_out,
                "median_error": float(np.median(np.abs(fit.errors))),
                "p90_error": float(np.quantile(np.abs(fit.errors), 0.9)),
                "bias": float(np.median(fit.errors)),
                "constants": dict(fit.constants),
            }
            for fit in self.fits
        ]

    def yaml(self) -> str:
        """The fitted values as a block for a device file, to stand beside `use: <datasheet>.yaml`."""
        by_kernel = {fit.kernel: fit for fit in self.fits}
        lines: list[str] = []
        if "launch" in by_kernel:
            lines += ["launch:", *self._cited(by_kernel["launch"], "us", 1e6)]
        kernels: list[str] = []
        for name in ("copy", "lookup", "update"):
            if name in by_kernel:
                kernels += self._cited(by_kernel[name], "%", 100.0)
        if "gemm" in by_kernel:
            kernels += [
                "  gemm:",
                f"    fitted_on: {json.dumps(self.fitted_on(by_kernel['gemm']))}",
                "    status: fitted",
            ]
            kernels += [f"    {name}: {value:g}" for name, value in by_kernel["gemm"].constants.items()]
        return "\n".join(lines + (["kernels:", *kernels] if kernels else [])) + "\n"

    def _cited(self, fit: KernelFit, unit: str, scale: float) -> list[str]:
        about = f"source: {json.dumps(self.fitted_on(fit))}, status: fitted"
        return [f"  {name}: {{value: {value * scale:.4g} {unit}, {about}}}" for name, value in fit.constants.items()]


def calibrate_gpu(
    measurements: str | Path,
    device: Gpu | str | Path | None = None,
    *,
    gpu: str | None = None,
    seed: int = SEED,
    date: datetime.date | None = None,
    few: bool = False,
) -> Calibration:
    """Constants of a GPU from a csv table (`archmodel.calibrate.measurements.read` says of what columns).

    `device`: its datasheet, as a `Gpu`, a file, or a name in the catalogue; what the table's column `gpu` says if left
    out. `gpu`: which one, when the table holds several. Half of the rows of a kernel, drawn with `seed`, are fitted,
    all of them where there are fewer than 8. `few`: of matrix products only the rate of loads and one factor of all
    latencies, the other constants as in `device` (`gemm_fit.fit_two`). Raises `DesignError` for a table that cannot be
    read, and `ArchmodelError` for a device that is not known or no GPU.
    """
    rows = of_one_gpu(read(measurements), gpu, measurements)
    base = datasheet(device if device is not None else rows[0].gpu)
    by_kernel: dict[str, list[Measurement]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel, []).append(row)
    fits = []
    steps: dict[str, _Fit] = {**_FITS, "gemm": partial(_fit_gemm, few=few)}
    for kernel, fit in steps.items():
        if kernel in by_kernel:
            base, found = fit(base, tuple(by_kernel[kernel]), seed)
            fits.append(found)
    today = date or datetime.date.today()
    return Calibration(base, tuple(fits), Path(measurements).name, today)


def datasheet(device: Gpu | str | Path) -> Gpu:
    """A GPU from a file, or from the catalogue by the name of its file, the beginning of it, or its own name."""
    if isinstance(device, Gpu):
        return device
    path = Path(device)
    if path.suffix not in (".yaml", ".yml"):
        path = _in_catalogue(str(device))
    tree = source.read(path, catalogue=catalogue.directory())
    if tree.get("kind", "gpu") != "gpu":
        raise ArchmodelError(f"{path} is a {tree['kind']}, not a gpu")
    return source.validate(Gpu, tree)


def _in_catalogue(name: str) -> Path:
    folder = catalogue.directory() / "devices"
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    wanted = name.lower().replace("-", "_")
    matches = [stem for stem in files if wanted and stem.startswith(wanted)]
    if wanted in files or len(matches) == 1:
        return files[wanted if wanted in files else matches[0]]
    asked = f"no device {name!r} in the catalogue" if name else "the table does not say which GPU it is of"
    raise ArchmodelError(f"{asked}; name its datasheet: a file, or one of the catalogue's: {suggestion(name, files)}")


# --- one kind of kernel each ---------------------------------------------------------------------------------


def _fit_launch(base: Gpu, rows: tuple[Measurement, ...], seed: int) -> tuple[Gpu, KernelFit]:
    """Medians of an empty kernel, in a graph and launched one by one."""
    graph = np.array([row.shape[0] > 0 for row in rows])
    seconds = np.array([row.seconds for row in rows])
    constants = {name: _rounded(float(np.median(seconds[of]))) for name, of in _launches(graph) if of.any()}
    device = base.model_copy(update={"launch": base.launch.model_copy(update=constants)})
    predicted = np.where(graph, float(device.launch.graph), float(device.launch.eager))
    return device, KernelFit("launch", rows, np.ones(len(rows), dtype=bool), predicted / seconds - 1.0, constants)


def _launches(graph: npt.NDArray[np.bool_]) -> tuple[tuple[str, npt.NDArray[np.bool_]], ...]:
    return ("graph", graph), ("eager", ~graph)


def _fit_share(kernel: str, constant: str) -> _Fit:
    def fit(base: Gpu, rows: tuple[Measurement, ...], seed: int) -> tuple[Gpu, KernelFit]:
        """The share of bandwidth with the least mean absolute log error."""
        from scipy.optimize import minimize_scalar

        shapes = [np.array(column) for column in zip(*(row.shape for row in rows), strict=True)]
        seconds = np.array([row.seconds for row in rows])
        chosen = _half(len(rows), seed)

        def of(share: float) -> Gpu:
            return base.model_copy(update={"kernels": base.kernels.model_copy(update={constant: share})})

        def predicted(share: float) -> Array:
            return np.asarray(_METHODS[kernel](of(share), shapes))

        def loss(share: float) -> float:
            return float(np.abs(np.log(predicted(share) / seconds))[chosen].mean())

        share = min(_rounded(float(minimize_scalar(loss, bounds=(0.01, 1.0), method="bounded").x)), 1.0)
        return of(share), KernelFit(kernel, rows, chosen, predicted(share) / seconds - 1.0, {constant: share})

    return fit


def _fit_gemm(base: Gpu, rows: tuple[Measurement, ...], seed: int, *, few: bool = False) -> tuple[Gpu, KernelFit]:
    """The constants of matrix products, over all precisions in the table at once."""
    chosen = _half(len(rows), seed)
    launch = float(np.asarray(base.launch.graph))
    dtypes = np.array([row.dtype for row in rows])
    parts = {str(dtype): (_products(rows, dtypes == dtype), base.chip(str(dtype))) for dtype in np.unique(dtypes)}
    half = [(p.where(chosen[dtypes == dtype]), chip) for dtype, (p, chip) in parts.items()]
    used = [part for part in half if part[0].seconds.size]
    known = base.kernels.gemm.of_law
    found = gemm_fit.fit_two(used, launch, known) if few else gemm_fit.fit(used, launch)  # ends at `LEAST` where unseen
    constants = {
        name: _rounded(value) if value > 10 * gemm_fit.LEAST else 0.0 for name, value in found._asdict().items()
    }
    law = GemmConstants.model_validate(constants)
    errors = np.empty(len(rows))
    for dtype, (products, chip) in parts.items():
        errors[dtypes == dtype] = gemm_fit.errors(products, chip, law.of_law, launch)
    device = base.model_copy(update={"kernels": base.kernels.model_copy(update={"gemm": law})})
    kept = f"load_width and one factor of all cycles, the rest as in {base.name}" if few else ""
    return device, KernelFit("gemm", rows, chosen, errors, constants, kept)


def _products(rows: tuple[Measurement, ...], which: npt.NDArray[np.bool_]) -> Products:
    chosen = [row for row, wanted in zip(rows, which, strict=True) if wanted]
    m, n, k, batch = (np.array(column) for column in zip(*(row.shape for row in chosen), strict=True))
    return Products(m, n, k, batch, itemsize(chosen[0].dtype), np.array([row.seconds for row in chosen]))


def _half(rows: int, seed: int) -> npt.NDArray[np.bool_]:
    return gemm_fit.halves(rows, seed) if rows >= 8 else np.ones(rows, dtype=bool)


def _rounded(value: float) -> float:
    """With `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS - 1}e}")


_METHODS: dict[str, Callable[[Gpu, list[Array]], Any]] = {
    "copy": lambda gpu, shape: gpu.stream(shape[0]).total,
    "lookup": lambda gpu, shape: gpu.gather(*shape).total,
    "update": lambda gpu, shape: gpu.exact_update(*shape).total,
}

_FITS: dict[str, _Fit] = {
    "launch": _fit_launch,
    "copy": _fit_share("copy", "stream"),
    "lookup": _fit_share("lookup", "gather"),
    "update": _fit_share("update", "update"),
}
"""In this order, and products last: launches count in all others, streams in lookups, lookups in updates."""
