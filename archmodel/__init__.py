"""archmodel: one design file in (a machine, a model, a parallel plan), a trusted estimate out.

    import archmodel as am

    design = am.load("designs/mlperf_dcnv2_dgx_h100.yaml")
    answer = am.estimate(design)
    answer.iteration_time, answer.throughput, answer.fits, answer.bound

Names are imported when they are first used, so `import archmodel` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from archmodel import views as _views

if TYPE_CHECKING:
    from archmodel import catalogue, validation
    from archmodel.design import Design, load, load_system
    from archmodel.errors import ArchmodelError, DesignError, DoesNotFit, Problem
    from archmodel.estimate.estimate import estimate
    from archmodel.estimate.result import Estimate
    from archmodel.execute.check import check
    from archmodel.execute.execute import execute
    from archmodel.program import Program
    from archmodel.search.found import Found
    from archmodel.search.planner import plan
    from archmodel.search.search import search
    from archmodel.sweep.axes import between, linspace, logspace
    from archmodel.sweep.results import Results
    from archmodel.sweep.sweep import sweep
    from archmodel.system import System

__version__ = "0.1.0"

_HOME = {
    "ArchmodelError": "archmodel.errors",
    "Design": "archmodel.design",
    "DesignError": "archmodel.errors",
    "DoesNotFit": "archmodel.errors",
    "Estimate": "archmodel.estimate.result",
    "Found": "archmodel.search.found",
    "Problem": "archmodel.errors",
    "Program": "archmodel.program",
    "Results": "archmodel.sweep.results",
    "System": "archmodel.system",
    "between": "archmodel.sweep.axes",
    "catalogue": "archmodel",
    "check": "archmodel.execute.check",
    "estimate": "archmodel.estimate.estimate",
    "execute": "archmodel.execute.execute",
    "linspace": "archmodel.sweep.axes",
    "load": "archmodel.design",
    "load_system": "archmodel.design",
    "logspace": "archmodel.sweep.axes",
    "plan": "archmodel.search.planner",
    "search": "archmodel.search.search",
    "sweep": "archmodel.sweep.sweep",
    "validation": "archmodel",
}
"""Where each public name lives; those at home in `archmodel` are its modules."""

for _kind, _view, _drawer in (
    ("Design", "html", "design_html"),
    ("Estimate", "html", "estimate_html"),
    ("Estimate", "figure", "figure"),
    ("Plan", "html", "plan_html"),
    ("Results", "html", "results_html"),
):
    _views.register(_kind, _view, f"archmodel.report.html.notebook:{_drawer}")

__all__ = [
    "ArchmodelError",
    "Design",
    "DesignError",
    "DoesNotFit",
    "Estimate",
    "Found",
    "Problem",
    "Program",
    "Results",
    "System",
    "__version__",
    "between",
    "catalogue",
    "check",
    "estimate",
    "execute",
    "linspace",
    "load",
    "load_system",
    "logspace",
    "plan",
    "search",
    "sweep",
    "validation",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'archmodel' has no attribute {name!r}")
    if home == __name__ or home.startswith(f"{__name__}.{name}."):
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Function(ModuleType):
    """A package that is also the function of its own name: `archmodel.estimate(design)`."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_HOME[name]), name)(*args, **keywords)


class _Package(ModuleType):
    """Python hangs an imported package on its parent under the package's name; those two must stay callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOME.get(name, "").startswith(f"{__name__}.{name}."):
            value.__class__ = _Function
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
