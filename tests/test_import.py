"""`import archmodel` is light, and every public name is there when asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import archmodel

HEAVY = ("scipy", "plotly", "networkx", "pint", "rich", "numba", "ruamel", "pydantic", "numpy")
HEAVY_FOR_A_DESIGN = ("scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.stats", "plotly", "networkx", "numba")
"""pint looks for scipy's version, which costs nothing; scipy's parts cost half a second each."""


def modules_after(code: str) -> set[str]:
    """Names in `sys.modules` of a fresh interpreter that ran `code`."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert not modules_after("import archmodel").intersection(HEAVY)


def test_the_command_imports_nothing_before_it_runs() -> None:
    assert not modules_after("import archmodel.cli").intersection(HEAVY)


def test_loading_and_estimating_need_nothing_heavy(small_design: object) -> None:
    code = f"import archmodel; archmodel.estimate(archmodel.load({str(small_design)!r})).elasticities"
    assert not modules_after(code).intersection(HEAVY_FOR_A_DESIGN)


UNUSED_BY_DLRM = (
    "pint",
    "numpy.ma",
    "numpy.random",
    "asyncio",
    "archmodel.components.accelerator",
    "archmodel.components.endpoints",
    "archmodel.memory.access_histogram",
    "archmodel.memory.access_trace",
    "archmodel.memory.block",
    "archmodel.memory.cache_exact",
    "archmodel.network.fully_connected",
    "archmodel.network.pcie",
    "archmodel.network.torus",
    "archmodel.parallel.layered",
    "archmodel.workloads.layered",
    "archmodel.execute",
    "archmodel.search",
    "archmodel.sweep",
)
"""Kinds and packages that a recommendation model on GPUs does not ask for, and units beyond the common ones."""


def test_evaluating_a_published_design_imports_no_kind_that_it_does_not_name() -> None:
    code = "import sys; sys.argv[1:] = ['evaluate', 'mlperf_dcnv2_dgx_h100.yaml', '--json']; sys.stdout = sys.stderr\n"
    code += "from archmodel.cli import main\ntry: main()\nexcept SystemExit: sys.stdout = sys.__stdout__\nx = 1"
    assert not modules_after(code).intersection(UNUSED_BY_DLRM)


def test_a_command_is_not_searched_for_garbage_when_it_ends() -> None:
    code = "import sys, gc; sys.argv[1:] = ['--version']; from archmodel.cli import main\n"
    code += "try: main()\nexcept SystemExit: assert gc.get_freeze_count() > 0\nx = 1"
    modules_after(code)


@pytest.mark.parametrize("name", archmodel.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(archmodel, name) is not None
    assert name in dir(archmodel)


def test_a_typo_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="estimat"):
        archmodel.estimat


@pytest.mark.parametrize("first", ["", "import archmodel.estimate.result, archmodel.execute.settings; "])
@pytest.mark.parametrize("name", ["estimate", "execute"])
def test_a_package_is_the_function_of_its_name(name: str, first: str) -> None:
    """Python replaces `archmodel.estimate` by the package when that is imported; it must stay callable."""
    modules_after(
        f"{first}import archmodel as am; assert callable(am.{name}); import archmodel.{name} as p; p.__call__"
    )
