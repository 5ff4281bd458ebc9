"""The Neo study: what it says of the published claims follows from its estimates. Sizes and steps are cut down."""

from __future__ import annotations

import numpy as np
import pytest


def test_model_f_takes_the_published_bytes(study) -> None:
    """96 TB naive, 24 TB with half precision and row-wise Adagrad, whose state (12T / 256 x 4 B) the paper leaves out;
    the first is more than 16 nodes hold (29.1 TB), the second is not."""
    naive, half = study.holds()
    assert naive.bytes == pytest.approx(96e12, rel=1e-4)
    assert half.bytes == pytest.approx(24e12 + 12e12 / 256 * 4, rel=1e-4)
    assert half.nodes <= 16 < naive.nodes
    pool = 8 * 40e9 + 1.5e12
    assert naive.nodes * pool > naive.bytes
    assert half.nodes * pool > half.bytes


def test_scaling_leaves_out_what_does_not_fit_and_spills_below_it(study) -> None:
    a = study.scaling("a", (32, 64, 128))
    assert list(a) == [32, 64, 128]
    assert study.tiers(a[32]) == ["hbm", "ddr"]
    assert study.tiers(a[128]) == ["hbm"]
    assert all(e.fits for e in a.values())
    assert a[32].throughput < a[64].throughput < a[128].throughput
    assert study.scaling("f", (64,)) == {}


def test_spilt_tables_fill_the_part_of_hbm_that_they_may(study) -> None:
    base = study.sized("a", 32)
    placement = study.spilt(base, 0.5).placement
    t = placement.tables
    size = 2.0 * t.num_embeddings * t.embedding_dim
    inside = float(size[np.asarray(placement.tier) == "hbm"].sum())
    assert inside == pytest.approx(0.5 * 32 * 40e9, rel=0.02)


def test_narrower_wires_are_never_slower(study) -> None:
    times = [float(e.iteration_time) for e in study.wires().values()]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] > 1.2


def test_servers_that_never_wait_bound_synchronous_ones(study) -> None:
    for servers in (16, 64):
        found = study.cpu("a", servers)
        assert found.fits
        assert 0 < found.synchronous < found.no_network


def test_the_claim_of_40x_is_met_where_the_study_says(study) -> None:
    """At the crossing, 128 GPUs over so many servers is 40, for either kind of step."""
    ours = float(study.am.estimate(study.design("a")).throughput)
    few, many = study.crossing("no_network"), study.crossing("synchronous")
    assert few < many
    for servers, of in ((few, "no_network"), (many, "synchronous")):
        near = study.cpu("a", round(servers))
        assert ours / getattr(near, of) == pytest.approx(40, rel=0.03)


def test_plans_without_caches_keep_everything_else(study) -> None:
    rule = {"in": "hbm", "size": "1 GiB", "policy": "lru", "ways": 32, "prefetch": 1}
    tables = {"default": {"sharding": "row_wise", "tier": "ddr", "cache": rule, **study.STORED}}
    cached = study.sized("f", 128, tables=tables)
    bare = study.without_caches(cached)
    assert cached.placement.cached.all()
    assert not bare.placement.cached.any()
    assert list(bare.placement.sharding) == list(cached.placement.sharding)
    assert study.am.estimate(bare).iteration_time >= study.am.estimate(cached).iteration_time


def test_figures_say_what_they_draw(study, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = study.wire_figure()
    made = np.sum([trace["x"] for trace in figure.data], axis=0)
    times = [float(e.iteration_time) for e in study.wires().values()]
    assert made == pytest.approx(times, rel=0.05)  # waits that overlap are not drawn
    assert len(figure.layout["yaxis"]["ticktext"]) == len(times)
