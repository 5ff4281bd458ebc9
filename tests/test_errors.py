import pickle

from archmodel.errors import (
    SHOWN_PROBLEMS,
    ArchmodelError,
    DesignError,
    Problem,
    QuantityError,
    escape,
    nearest,
    shown,
    suggestion,
)

BANDWIDTH = Problem("system.node.nic.bandwidth", "is an amount of data", '"25 GB"', "broken.yaml", 7, 13)
UNKNOWN = Problem("workload.embeding_dim", "unknown field; did you mean embedding_dim?", None, "broken.yaml", 12, 3)


def test_a_problem_says_place_field_value_and_message():
    assert str(BANDWIDTH) == 'broken.yaml:7:13  system.node.nic.bandwidth  "25 GB"  is an amount of data'


def test_a_problem_may_know_less():
    assert str(Problem("nodes", "is missing")) == "nodes  is missing"
    assert str(Problem("", "is empty", file="x.yaml")) == "x.yaml  is empty"


def test_a_design_error_aligns_its_problems_and_counts_them():
    lines = str(DesignError([UNKNOWN, BANDWIDTH])).splitlines()
    assert lines == [
        'broken.yaml:7:13  system.node.nic.bandwidth  "25 GB"  is an amount of data',
        "broken.yaml:12:3  workload.embeding_dim      unknown field; did you mean embedding_dim?",
        "2 problems; nothing was evaluated.",
    ]


def test_problems_are_sorted_by_place_and_told_once():
    other = Problem("a", "is missing", None, "another.yaml", 30, 1)
    assert DesignError([UNKNOWN, BANDWIDTH, other, UNKNOWN]).problems == (other, BANDWIDTH, UNKNOWN)


def test_one_problem_is_singular():
    assert str(DesignError(UNKNOWN)).endswith("\n1 problem; nothing was evaluated.")


def test_a_flood_of_problems_is_cut_in_print_only():
    error = DesignError(Problem(f"f{line}", "is missing", None, "x.yaml", line) for line in range(1, 1001))
    assert len(error.problems) == 1000
    assert str(error).splitlines()[SHOWN_PROBLEMS:] == [
        "... and 950 more",
        "1,000 problems; nothing was evaluated.",
    ]


def test_errors_survive_a_process_boundary():
    error = pickle.loads(pickle.dumps(DesignError([BANDWIDTH, UNKNOWN])))
    assert error.problems == (BANDWIDTH, UNKNOWN)
    quantity = pickle.loads(pickle.dumps(QuantityError("is negative", '"-1 s"')))
    assert (quantity.message, quantity.value, str(quantity)) == (
        "is negative",
        '"-1 s"',
        '"-1 s" is negative',
    )


def test_a_quantity_error_is_both_ours_and_a_value_error():
    assert isinstance(QuantityError("x"), ArchmodelError)
    assert isinstance(QuantityError("x"), ValueError)


def test_control_and_direction_characters_are_spelled_out():
    assert escape("a\x1b[31mred\n\u202e\u200b\ud800") == "a\\x1b[31mred\\x0a\\u202e\\u200b\\ud800"
    assert escape("µs <b>ünïcode</b>") == "µs <b>ünïcode</b>"
    hostile = Problem("a\x1bb", "m\nm", "v\rv", "f\x00.yaml", 1, 1)
    assert str(hostile) == "f\\x00.yaml:1:1  a\\x1bb  v\\x0dv  m\\x0am"
    assert "\x1b" not in str(DesignError(hostile))


def test_nearest_ignores_case_and_keeps_the_best_first():
    assert nearest("Embeding_Dim", ["embedding_dim", "num_embeddings", "batch"])[0] == "embedding_dim"
    assert nearest("zzz", ["embedding_dim"]) == []
    assert nearest("x" * 10_000, ["x" * 9_999]) == []


def test_suggestion_falls_back_to_what_is_known():
    assert suggestion("bandwith", ["bandwidth", "latency"]) == "did you mean bandwidth?"
    assert suggestion("qqq", ["bandwidth", "latency"]) == "known: bandwidth, latency"
    assert suggestion("qqq", []) == ""


def test_values_are_shown_short():
    assert shown('say "hi"\x07') == '"say \\"hi\\"\\u0007"'
    assert len(shown("x" * 1000)) == 50
    assert [shown(value) for value in (None, True, 3, 2.5, {}, [], 10**400)] == [
        "null", "true", "3", "2.5", "a mapping", "a list", "a huge integer",
    ]  # fmt: skip


def test_a_long_place_is_printed_whole() -> None:
    file = f"/{'x' * 80}/broken.yaml"
    assert str(DesignError(Problem("system.nodes", "is wrong", None, file, 9, 3))).startswith(
        f"{file}:9:3  system.nodes"
    )
