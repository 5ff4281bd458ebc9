import math
import subprocess
import sys
from importlib import resources
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from archmodel import quantities as q
from archmodel.errors import QuantityError
from archmodel.quantities import DIMENSIONS, parse, read, show, spelled

FILE = {"file": True}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("200 Gbit/s", "bandwidth", 25e9),
        ("25GB/s", "bandwidth", 25e9),
        ("25 GiB/s", "bandwidth", 25 * 2**30),
        ("2039 GB/s", "bandwidth", 2.039e12),
        ("2.039 TB/s", "bandwidth", 2.039e12),
        ("80 GB", "bytes", 80e9),
        ("80 GiB", "bytes", 80 * 2**30),
        ("1 Gibit", "bytes", 2**27),
        ("50 MiB", "bytes", 50 * 2**20),
        ("0 B", "bytes", 0),
        ("1_000 bytes", "bytes", 1000),
        ("1e3 B", "bytes", 1000),
        ("19.5 TFLOP/s", "flop_rate", 19.5e12),
        ("624 TOP/s", "flop_rate", 624e12),
        ("1.5 us", "seconds", 1.5e-6),
        ("1.5 µs", "seconds", 1.5e-6),
        ("1.5 μs", "seconds", 1.5e-6),
        ("2 hours", "seconds", 7200),
        ("1.41 GHz", "hertz", 1.41e9),
        ("10.2 kW", "watts", 10200),
        ("1.2 kWh", "joules", 1.2 * 3.6e6),
        ("4 pJ/bit", "joules_per_byte", 32e-12),
        ("0.5 pJ/FLOP", "joules_per_flop", 0.5e-12),
        ("25 kUSD", "usd", 25e3),
        ("0.36 USD/kWh", "usd_per_joule", 1e-7),
        ("1.2 Msample/s", "sample_rate", 1.2e6),
        ("3200 MT/s", "transfer_rate", 3.2e9),
        ("85 %", "fraction", 0.85),
        ("0.85", "fraction", 0.85),
        ("1.05", "ratio", 1.05),
    ],
)
def test_parse_gives_exactly_rounded_si(text, kind, value):
    assert parse(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("25 GB", "bandwidth", 'is an amount of data; a bandwidth is needed, e.g. "25 GB/s" or "200 Gbit/s"'),
        ("5 GHz", "bandwidth", "is a frequency; a bandwidth is needed"),
        ("3200 MT/s", "bandwidth", "is a transfer rate; a bandwidth is needed"),
        ("400 W", "joules", "is a power; an energy is needed"),
        ("3 B*s", "bytes", "is in B*s; an amount of data is needed"),
        ("25", "bandwidth", "has no unit; a bandwidth is needed"),
        ("25 %", "bandwidth", "is a percentage; a bandwidth is needed"),
        ("1 s", "ratio", "is a time; a number of 0 or more is needed"),
        ("25 Gb/s", "bandwidth", "could be bits or bytes; write Gbit/s or GB/s"),
        ("25 Gbps", "bandwidth", "could be bits or bytes; write Gbit/s or GB/s"),
        ("25 Kb", "bytes", "could be bits or bytes; write kbit or kB"),
        ("25 GBps", "bandwidth", "write GB/s"),
        ("312 TFLOPS", "flop_rate", "write TFLOP/s (a rate) or TFLOP (a count)"),
        ("1 TOPS", "flop_rate", "write TFLOP/s (a rate) or TFLOP (a count)"),
        ("4 KB", "bytes", "write kB (1000) or KiB (1024)"),
        ("4 KB/s", "bandwidth", "write kB/s (1000) or KiB/s (1024)"),
        ("64 gb", "bytes", "unknown unit gb; did you mean GB?"),
        ("5 GB/sec", "bandwidth", "unknown unit sec; did you mean s?"),
        ("5 furlong", "seconds", "unknown unit furlong; a time is needed"),
        ("600 GB/s bidirectional", "bandwidth", "per direction"),
        ("2,039 GB/s", "bandwidth", "comma"),
        ("-1 GB/s", "bandwidth", "is negative"),
        ("inf GB/s", "bandwidth", "is not a finite number"),
        (".nan", "seconds", "is not a finite number"),
        ("1e999 s", "seconds", "is not a finite number"),
        ("1e9999999999 s", "seconds", "has an exponent out of range"),
        ("120 %", "fraction", "is above 1"),
        ("", "bytes", "is not a number with a unit"),
        ("fast", "bandwidth", "is not a number with a unit"),
        ("0x10 B", "bytes", "an amount of data is needed"),
        ("1 GB/s/s/s/s/s/s", "bandwidth", "a bandwidth is needed"),
        ("1 GB**9**9**9**9", "bytes", "an amount of data is needed"),
        ("1 " + "G" * 10**6, "bytes", "is too long"),
        ("1 dB", "bytes", "unknown unit dB"),
        ("1 mB", "bytes", "unknown unit mB"),
    ],
)
def test_refusals_say_what_is_needed(text, kind, message):
    with pytest.raises(QuantityError) as caught:
        parse(text, kind)
    assert message in caught.value.message
    assert str(caught.value).startswith('"')
    assert len(str(caught.value)) < 300


def test_an_unknown_dimension_lists_the_known_ones():
    with pytest.raises(KeyError, match="bandwidth"):
        parse("1 s", "bandwith")


def test_read_finds_the_dimension():
    assert read("8 TB/s") == (8e12, DIMENSIONS["bandwidth"])
    assert read("85 %") == (0.85, DIMENSIONS["fraction"])
    assert read("3") == (3.0, DIMENSIONS["ratio"])
    with pytest.raises(QuantityError, match="no quantity"):
        read("1 B*s")


def test_every_example_parses():
    for dimension in DIMENSIONS.values():
        for example in dimension.examples:
            assert parse(example.strip('"'), dimension) > 0


def test_every_unit_of_the_file_is_listed_once_and_reads():
    text = resources.files("archmodel").joinpath("units.txt").read_text(encoding="utf-8")
    names = [line.split("=")[0].strip() for line in text.splitlines() if "=" in line and not line.startswith("#")]
    assert len(names) == len(set(names)) > 70
    for name in names:
        factor, _ = q._factor(name)
        assert factor > 0


@given(st.text(max_size=80), st.sampled_from(sorted(DIMENSIONS)))
def test_any_text_is_a_number_or_a_quantity_error(text, kind):
    try:
        value = parse(text, kind)
    except QuantityError:
        return
    assert math.isfinite(value)
    assert value >= 0


@given(
    st.decimals(0, 10**6, allow_nan=False, places=4),
    st.sampled_from(["Gbit/s", "GB/s", "GiB/s", "B/s", "Gb/s", "GB", "s", "%", "MT/s", "", "GB/s/s"]),
    st.sampled_from(["", " ", "  "]),
)
def test_units_and_numbers_in_any_mixture(number, unit, space):
    factors = {"Gbit/s": 10**9 / 8, "GB/s": 10**9, "GiB/s": 2**30, "B/s": 1}
    text = f"{number}{space}{unit}"
    if unit in factors:
        assert parse(text, "bandwidth") == pytest.approx(float(number) * factors[unit], rel=1e-15)
    else:
        with pytest.raises(QuantityError):
            parse(text, "bandwidth")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2.039e12, "bandwidth", "2.04 TB/s"),
        (0.0123, "seconds", "12.3 ms"),
        (1.2e6, "sample_rate", "1.20 Msample/s"),
        (31.2e9, "bytes", "31.2 GB"),
        (999.9e9, "bytes", "1.00 TB"),
        (0.0, "bytes", "0 B"),
        (1200.0, "seconds", "1,200 s"),
        (3e-14, "seconds", "0.0300 ps"),
        (0.71, "fraction", "71.0 %"),
        (1.05, "ratio", "1.05"),
        (25e3, "usd", "25.0 kUSD"),
        (-0.5e-3, "seconds", "-500 us"),
        (math.inf, "seconds", "inf s"),
        (np.array([1e12, 8e12]), "bandwidth", "1.00 TB/s to 8.00 TB/s"),
        (np.array([[2.0]]), "watts", "2.00 W"),
        (np.array([]), "watts", "none"),
    ],
)
def test_show(value, kind, text):
    assert show(value, kind) == text


def test_show_with_other_digits():
    assert show(31.25e9, "bytes", digits=2) == "31 GB"
    assert show(0.0520849, "seconds", digits=5) == "52.085 ms"


UNITS = sorted(name for name, dimension in DIMENSIONS.items() if not dimension.bare)


@given(st.floats(0, 1e300, allow_subnormal=False), st.sampled_from(UNITS))
def test_spelled_reads_back_to_the_same_float(value, kind):
    assert parse(spelled(value, kind), kind) == value


@given(st.floats(1e-9, 1e18), st.sampled_from(UNITS))
def test_what_is_shown_reads_back_to_three_digits(value, kind):
    assert parse(show(value, kind).replace(",", ""), kind) == pytest.approx(value, rel=6e-3)


# --- as pydantic fields -------------------------------------------------------------------------------------


class Link(BaseModel):
    bandwidth: q.PositiveBandwidth
    latency: q.Seconds = 0.0
    price: q.Usd | None = None
    efficiency: q.Fraction = 1.0
    lanes: q.Count = 1


def refusal(field, value, context=FILE):
    with pytest.raises(ValidationError) as caught:
        Link.model_validate({"bandwidth": "1 GB/s", field: value}, context=context)
    (error,) = caught.value.errors()
    assert error["loc"] == (field,)
    return error["msg"]


def test_a_field_reads_units_and_holds_si():
    link = Link.model_validate({"bandwidth": "200 Gbit/s", "price": "1 kUSD", "efficiency": "85 %"}, context=FILE)
    assert (link.bandwidth, link.price, link.efficiency) == (25e9, 1000.0, 0.85)


def test_a_bare_number_is_si_in_python_and_refused_in_a_file():
    assert Link(bandwidth=25e9, latency=1).latency == 1.0
    assert "has no unit; a bandwidth is needed" in refusal("bandwidth", 25e9)
    assert "has no unit; an amount of money is needed" in refusal("price", 300)


def test_a_pure_number_needs_no_unit_in_a_file():
    assert Link.model_validate({"bandwidth": "1 GB/s", "efficiency": 0.5}, context=FILE).efficiency == 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 10**400])
def test_numbers_that_are_no_quantity_are_refused(value):
    assert "is not a finite number" in (message := refusal("latency", value, None)) or "is negative" in message


@pytest.mark.parametrize("value", [True, None, [], {}, {"value": 1}, b"1 GB/s", 1j])
def test_things_that_are_no_number_are_refused(value):
    assert "is not a quantity; a bandwidth is needed" in refusal("bandwidth", value, None)


def test_zero_is_refused_where_it_makes_no_sense():
    assert "is zero; a bandwidth is needed" in refusal("bandwidth", "0 GB/s")
    assert Link.model_validate({"bandwidth": "1 GB/s", "latency": "0 s"}, context=FILE).latency == 0.0


def test_an_array_passes_untouched():
    array = np.linspace(1e9, 1e12, 5).reshape(5, 1)
    assert Link(bandwidth=array).bandwidth is array
    assert Link.model_validate({"bandwidth": array}, context=FILE).bandwidth is array


def test_an_array_of_integers_becomes_floats_and_a_single_value_a_float():
    assert Link(bandwidth=np.array([1, 2])).bandwidth.dtype == np.float64
    assert type(Link(bandwidth=np.array(5.0)).bandwidth) is float
    assert type(Link(bandwidth=np.float32(5)).bandwidth) is float


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_one_bad_value_in_an_array_is_refused(bad):
    with pytest.raises(ValidationError):
        Link(bandwidth=np.array([1.0, bad, 2.0]))


def test_an_array_of_text_is_refused():
    assert "is an array of" in refusal("bandwidth", np.array(["1 GB/s"]))
    assert "is above 1" in refusal("efficiency", np.array([0.5, 1.5]))


@pytest.mark.parametrize("value", [8.0, True, "8", 0, -1, 10**15 + 1])
def test_a_count_is_a_whole_number(value):
    with pytest.raises(ValidationError):
        Link(bandwidth=1.0, lanes=value)


def test_json_holds_text_that_a_file_may_hold():
    link = Link(bandwidth=2.039e12, latency=1.5e-6, efficiency=0.3)
    assert Link.model_validate(TypeAdapter(dict).validate_json(link.model_dump_json()), context=FILE) == link


def test_the_json_schema_shows_examples_and_cited_values():
    field = Link.model_json_schema()["properties"]["bandwidth"]
    text, cited = field["anyOf"]
    assert text == {"type": "string", "examples": ["25 GB/s", "200 Gbit/s"]}
    assert cited["required"] == ["value"]
    assert field["description"] == "a bandwidth, 25 GB/s or 200 Gbit/s"


def test_metadata_names_a_dimension_that_exists():
    for alias in vars(q).values():
        for mark in getattr(alias, "__metadata__", ()):
            if isinstance(mark, q.Quantity):
                assert mark.dimension in DIMENSIONS
    assert TypeAdapter(Annotated[q.Num, q.Quantity("lookup_rate")]).validate_python("3 Glookup/s") == 3e9


def test_element_types():
    assert [q.itemsize(name) for name in ("fp64", "tf32", "bf16", "fp8", "int64", "uint8")] == [
        8,
        4,
        2,
        1,
        8,
        1,
    ]
    assert set(q.DTYPES) == set(q.Dtype.__args__)
    with pytest.raises(QuantityError, match="known: fp64"):
        q.itemsize("fp33")


def test_units_leave_other_packages_alone() -> None:
    read = "import sys; from archmodel.quantities import parse; parse('3 GB', 'bytes'); print('dask' in sys.modules)"
    code = f"{read}; import dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_the_table_of_common_units_is_what_pint_makes_of_them() -> None:
    from archmodel.quantities import common_units
    from archmodel.unit_factors import FACTORS

    assert common_units([f"1 {name}" for name in FACTORS]) == FACTORS
    assert {"GB/s", "Gbit/s", "GiB", "us", "pJ/bit", "kIO/s"} <= FACTORS.keys()
