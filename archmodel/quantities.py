"""Quantities with units, at the door of the model: text such as "200 Gbit/s" becomes an SI float.

Inside archmodel every quantity is a plain number in SI base units (bytes, seconds, FLOP, joules, US dollars
and their quotients) or a float64 array of such numbers. The field types below (`Bandwidth`, `Seconds`, ...)
put the door into a pydantic model: they read unit text, refuse a wrong dimension, a negative, infinite or
undefined number, and, when the value comes from a file, a bare number where a unit is due.

The units are our own closed list, `units.txt`, read by pint; what it makes of the common ones stands in
`unit_factors.py`, so that most designs are read without it. GB is 1e9 bytes and GiB is 2**30; a bit is spelled "bit"
and a byte "B", so "Gb/s" and "Gbps" are refused as ambiguous.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction as Rational
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from archmodel.errors import QuantityError, nearest, shown
from archmodel.unit_factors import FACTORS

if TYPE_CHECKING:
    from pint import UnitRegistry

Array: TypeAlias = npt.NDArray[np.float64]
Num: TypeAlias = float | Array
"""Every analytic law takes and returns these and broadcasts."""


# --- dimensions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dimension:
    """A kind of quantity: name, noun in messages, SI unit, examples, prefixes to print with, maximum."""

    name: str
    noun: str
    unit: str
    examples: tuple[str, ...]
    prefixes: str = ""
    most: float | None = None

    @property
    def bare(self) -> bool:
        """Whether this is a pure number, which needs no unit."""
        return self.unit == ""

    @property
    def needed(self) -> str:
        """`a bandwidth is needed, e.g. "25 GB/s" or "200 Gbit/s"`."""
        return f"{self.noun} is needed, e.g. {' or '.join(self.examples)}"


_UP, _DOWN = "kMGTPE", "munp"

DIMENSIONS: dict[str, Dimension] = {
    dimension.name: dimension
    for dimension in (
        Dimension("bytes", "an amount of data", "B", ('"80 GB"', '"50 MiB"'), _UP),
        Dimension("bandwidth", "a bandwidth", "B/s", ('"25 GB/s"', '"200 Gbit/s"'), _UP),
        Dimension("flops", "a number of operations", "FLOP", ('"1.5 GFLOP"',), _UP),
        Dimension("flop_rate", "a compute rate", "FLOP/s", ('"312 TFLOP/s"',), _UP),
        Dimension("seconds", "a time", "s", ('"1.5 us"', '"20 ms"'), _DOWN),
        Dimension("hertz", "a frequency", "Hz", ('"1.41 GHz"',), "kMG"),
        Dimension("watts", "a power", "W", ('"400 W"', '"10.2 kW"'), "mkMG"),
        Dimension("joules", "an energy", "J", ('"3 mJ"', '"1.2 kWh"'), "fpnumkMG"),
        Dimension("joules_per_byte", "an energy per byte", "J/B", ('"4 pJ/bit"', '"31 pJ/B"'), "fpnum"),
        Dimension("joules_per_flop", "an energy per operation", "J/FLOP", ('"0.5 pJ/FLOP"',), "fpnum"),
        Dimension("joules_per_sample", "an energy per sample", "J/sample", ('"0.7 J/sample"',), "numk"),
        Dimension("usd", "an amount of money", "USD", ('"25 kUSD"', '"300 USD"'), "kM"),
        Dimension("usd_per_joule", "a price of energy", "USD/J", ('"0.10 USD/kWh"',)),
        Dimension("usd_per_sample", "a price per sample", "USD/sample", ('"0.40 USD/Msample"',)),
        Dimension("samples", "a number of samples", "sample", ('"64 ksample"',), "kMG"),
        Dimension("sample_rate", "a sample rate", "sample/s", ('"1.2 Msample/s"',), "kMG"),
        Dimension("lookup_rate", "a lookup rate", "lookup/s", ('"3 Glookup/s"',), "kMG"),
        Dimension("transfer_rate", "a transfer rate", "transfer/s", ('"3200 MT/s"',)),
        Dimension("request_rate", "a rate of requests", "IO/s", ('"550 kIO/s"', '"1.5 MIO/s"'), "kMG"),
        Dimension("fraction", "a fraction from 0 to 1", "", ("0.85", '"85 %"'), most=1.0),
        Dimension("ratio", "a number of 0 or more", "", ("1.05",)),
    )
}

_PREFIX = {
    "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3,
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
}  # fmt: skip


def dimension(name: str | Dimension) -> Dimension:
    """The dimension of that name; `KeyError` names the known ones."""
    if isinstance(name, Dimension):
        return name
    if name not in DIMENSIONS:
        raise KeyError(f"no dimension {name!r}; known: {', '.join(DIMENSIONS)}")
    return DIMENSIONS[name]


# --- text to number -----------------------------------------------------------------------------------------

_LONGEST = 64
_NUMBER = r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
_TEXT = re.compile(rf"\s*({_NUMBER})\s*(.*?)\s*", re.DOTALL)
_UNIT = re.compile(r"[A-Za-zµμ]+(?:\s*[/*·]\s*[A-Za-zµμ]+){0,3}")
_NOT_FINITE = re.compile(r"\s*[+-]?\.?(?:inf|infinity|nan)\b.*", re.IGNORECASE | re.DOTALL)

_AMBIGUOUS = re.compile(r"([kKMGTPE]?)i?b(?:ps|/s)?|([kKMGTPE]?)bps", re.ASCII)
_BYTES_PER_SECOND = re.compile(r"([kKMGTPE]?i?)Bps")
_OPERATIONS = re.compile(r"([kMGTPE]?)(?:FL)?OPS(?:/s)?", re.IGNORECASE)
_SPELLINGS = {
    "sec": "s", "secs": "s", "msec": "ms", "usec": "us", "nsec": "ns", "hr": "h", "hrs": "h", "yr": "year",
    "flop": "FLOP", "samp": "sample", "dollar": "USD", "dollars": "USD", "hz": "Hz", "KW": "kW",
}  # fmt: skip


def parse(text: str, kind: str | Dimension) -> float:
    """SI value of `text`, which must be a finite quantity of 0 or more of the dimension `kind`.

    `parse("200 Gbit/s", "bandwidth") == 25e9`. Raises `QuantityError`, whose message says what is needed.
    """
    wanted = dimension(kind)
    return _checked(_parse(text, wanted.name), wanted, positive=False, value=text)


def read(text: str) -> tuple[float, Dimension]:
    """SI value and dimension of `text`, whatever known dimension it has: `read("8 TB/s")`."""
    number, unit = _split(text)
    if unit in ("", "%"):
        return float(number / (100 if unit else 1)), DIMENSIONS["fraction" if unit else "ratio"]
    factor, signature = _unit(unit)
    known = _dimensions().get(signature)
    if known is None:
        raise QuantityError(f"is in {unit}, which is no quantity archmodel knows", shown(text))
    return float(number * factor), known


@lru_cache(maxsize=8192)
def _parse(text: str, name: str) -> float:
    wanted = DIMENSIONS[name]
    number, unit = _split(text, wanted)
    if unit == "":
        if wanted.bare:
            return _to_float(number)
        raise QuantityError(f"has no unit; {wanted.needed}", shown(text))
    if unit == "%":
        if wanted.bare:
            return _to_float(number / 100)
        raise QuantityError(f"is a percentage; {wanted.needed}", shown(text))
    factor, signature = _unit(unit, text, wanted)
    found = _dimensions().get(signature)
    if found is not wanted:
        noun = found.noun if found else f"in {unit}"
        raise QuantityError(f"is {noun}; {wanted.needed}", shown(text))
    return _to_float(number * factor)


def _to_float(number: Rational) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _split(text: str, wanted: Dimension | None = None) -> tuple[Rational, str]:
    """The exact number and the unit text, as written."""
    needed = f"; {wanted.needed}" if wanted else ""
    if len(text) > _LONGEST:
        raise QuantityError(f"is too long for a quantity{needed}", shown(text))
    match = _TEXT.fullmatch(text)
    if match is None:
        what = "is not a finite number" if _NOT_FINITE.fullmatch(text) else "is not a number with a unit"
        raise QuantityError(f"{what}{needed}", shown(text))
    number, unit = match.groups()
    if unit.startswith(","):
        raise QuantityError("has a comma in its number; write it without, e.g. 2039 or 2.039", shown(text))
    exponent = re.split("[eE][+-]?", number)[1:]
    if exponent and len(exponent[0]) > 3:
        raise QuantityError(f"has an exponent out of range{needed}", shown(text))
    try:
        return Rational(number.replace("_", "")), unit
    except ValueError:
        raise QuantityError(f"is not a number with a unit{needed}", shown(text)) from None


Signature: TypeAlias = frozenset[tuple[str, Rational]]


def _unit(unit: str, text: str | None = None, wanted: Dimension | None = None) -> tuple[Rational, Signature]:
    try:
        return _factor(unit)
    except QuantityError as error:
        needed = f"; {wanted.needed}" if wanted and "write" not in error.message else ""
        raise QuantityError(error.message + needed, shown(text if text is not None else unit)) from None


@lru_cache(maxsize=1024)
def _factor(unit: str) -> tuple[Rational, Signature]:
    """How many SI units one `unit` is, exactly, and its dimensionality."""
    if unit in FACTORS:
        numerator, denominator, powers = FACTORS[unit]
        return Rational(numerator, denominator), frozenset((base, Rational(power)) for base, power in powers)
    return _by_pint(unit)


def _by_pint(unit: str) -> tuple[Rational, Signature]:
    ambiguous = _AMBIGUOUS.fullmatch(unit)
    if ambiguous:
        prefix = unit[0] if len(unit) > 1 and unit[0] in "kKMGTPE" else ""
        prefix = "k" if prefix == "K" else prefix
        per = "/s" if unit.endswith(("ps", "/s")) else ""
        raise QuantityError(f"says {unit}, which could be bits or bytes; write {prefix}bit{per} or {prefix}B{per}")
    hint = _hint(unit)
    if hint:
        raise QuantityError(f"says {unit}; write {hint}")
    if "direction" in unit or "dir" in unit.split("/"):
        raise QuantityError(f"says {unit}; every bandwidth is per direction already, write e.g. 25 GB/s")
    if not _UNIT.fullmatch(unit):
        raise QuantityError(f"has no unit that archmodel reads ({unit})")
    registry = _registry()
    for name in re.split(r"\s*[/*·]\s*", unit):
        if name not in _names() and name.removesuffix("s") not in _names():
            raise QuantityError(f"has the unknown unit {name}{_meant(name)}")
    quantity = registry.Quantity(Rational(1), registry.parse_units(unit.replace("·", "*"))).to_base_units()
    found: dict[str, Any] = dict(quantity.dimensionality)
    signature = frozenset((base, Rational(power)) for base, power in found.items())
    return Rational(str(quantity.magnitude)), signature


def common_units(texts: Iterable[str]) -> dict[str, tuple[int, int, tuple[tuple[str, int], ...]]]:
    """`unit_factors.FACTORS` anew, by pint: the units that `show` writes and those of the quantities among `texts`."""
    names = {f"{prefix}{d.unit}" for d in DIMENSIONS.values() if not d.bare for prefix in ("", *d.prefixes)}
    names |= {match[2] for text in texts if (match := _TEXT.fullmatch(text)) and _UNIT.fullmatch(match[2])}
    table = {}
    for name in sorted(names):
        try:
            factor, signature = _by_pint(name)
        except QuantityError:
            continue  # a word that follows a number
        powers = tuple(sorted((base, int(power)) for base, power in signature))
        table[name] = factor.numerator, factor.denominator, powers
    return table


def _hint(unit: str) -> str:
    """What to write instead of a spelling that is common but not ours."""
    if match := _BYTES_PER_SECOND.fullmatch(unit):
        return f"{match[1]}B/s"
    if match := _OPERATIONS.fullmatch(unit):
        return f"{match[1]}FLOP/s (a rate) or {match[1]}FLOP (a count)"
    if match := re.fullmatch(r"K(B|bit)(/s)?", unit):
        return f"k{match[1]}{match[2] or ''} (1000) or Ki{match[1]}{match[2] or ''} (1024)"
    return ""


def _meant(name: str) -> str:
    folded = {known.lower(): known for known in sorted(_names())}
    close = _SPELLINGS.get(name) or folded.get(name.lower()) or next(iter(nearest(name, _names(), 1)), None)
    return f"; did you mean {close}?" if close else ""


@contextmanager
def _not_imported(*names: str) -> Iterator[None]:
    """Meanwhile, packages that nobody has imported yet look absent: pint imports its optional companions where they are
    installed, dask alone for 0.1 s, to wrap types that we never give it."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@lru_cache(maxsize=1)
def _registry() -> UnitRegistry[Any]:
    """pint with `units.txt` and nothing else; built when the first unit is read."""
    with _not_imported("babel", "dask", "uncertainties", "xarray"):
        from pint import UnitRegistry

    from importlib import resources

    with resources.as_file(resources.files("archmodel") / "units.txt") as path:
        return UnitRegistry(str(path), non_int_type=Rational, on_redefinition="raise", cache_folder=None)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(_registry())


@lru_cache(maxsize=1)
def _dimensions() -> dict[Signature, Dimension]:
    return {_factor(known.unit)[1]: known for known in DIMENSIONS.values() if not known.bare}


# --- number to text -----------------------------------------------------------------------------------------


def show(value: Num, kind: str | Dimension, digits: int = 3) -> str:
    """`value` (SI) for a reader, with `digits` significant digits: "2.04 TB/s", "12.3 ms", "1.20 Msample/s".

    An array is shown as its range, "1.00 TB/s to 8.00 TB/s".
    """
    wanted = dimension(kind)
    if isinstance(value, np.ndarray) and value.size != 1:
        if value.size == 0:
            return "none"
        low, high = show(float(value.min()), wanted, digits), show(float(value.max()), wanted, digits)
        return low if low == high else f"{low} to {high}"
    number = float(value.item()) if isinstance(value, np.ndarray) else float(value)
    if wanted.name == "fraction":
        return f"{_significant(100 * number, digits)} %"
    prefix = _prefix(number, wanted.prefixes, digits)
    return f"{_significant(number / _PREFIX[prefix], digits)} {prefix}{wanted.unit}".rstrip()


def spelled(value: float, kind: str | Dimension) -> str:
    """`value` (SI) as text that `parse` reads back to the same float: "25000000000.0 B/s"."""
    return f"{float(value)!r} {dimension(kind).unit}".rstrip()


def _prefix(number: float, prefixes: str, digits: int) -> str:
    """The prefix that leaves one to three digits before the point, after rounding."""
    if number == 0 or not math.isfinite(number):
        return ""
    size = abs(_rounded(number, digits))
    rising: list[str] = sorted({"", *prefixes}, key=lambda prefix: _PREFIX[prefix])
    fitting = [prefix for prefix in rising if size >= _PREFIX[prefix]]
    return fitting[-1] if fitting else rising[0]


def _rounded(number: float, digits: int) -> float:
    return float(format(number, f".{digits - 1}e"))


def _significant(number: float, digits: int) -> str:
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    number = _rounded(number, digits)
    exponent = math.floor(math.log10(abs(number)))
    shape = f".{digits - 1}e" if exponent >= 15 or exponent < -6 else f",.{max(0, digits - 1 - exponent)}f"
    return format(number, shape)


# --- field types --------------------------------------------------------------------------------------------


def to_si(value: object, kind: str | Dimension, *, bare: bool = True, positive: bool = False) -> Num:
    """`value` as an SI float, or the float64 array it is; raises `QuantityError`.

    Text is parsed; numbers and arrays are taken as SI already. With `bare=False` a plain number is refused
    where the dimension has a unit; arrays never are (a file cannot hold one).
    """
    wanted = dimension(kind)
    if isinstance(value, str):
        return _checked(_parse(value, wanted.name), wanted, positive, value)
    if isinstance(value, np.ndarray):
        return _checked_array(value, wanted, positive)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise QuantityError(f"is not a quantity; {wanted.needed}", shown(value))
    if not (bare or wanted.bare):
        raise QuantityError(f"has no unit; {wanted.needed}", shown(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return _checked(number, wanted, positive, value)


def _checked(number: float, wanted: Dimension, positive: bool, value: object) -> float:
    if not math.isfinite(number):
        raise QuantityError(f"is not a finite number; {wanted.needed}", shown(value))
    if number < 0:
        raise QuantityError(f"is negative; {wanted.needed}", shown(value))
    if positive and number == 0:
        raise QuantityError(f"is zero; {wanted.needed}", shown(value))
    if wanted.most is not None and number > wanted.most:
        raise QuantityError(f"is above {wanted.most:g}; {wanted.needed}", shown(value))
    return number


def _checked_array(array: npt.NDArray[Any], wanted: Dimension, positive: bool) -> Num:
    if array.dtype.kind not in "iuf":
        raise QuantityError(f"is an array of {array.dtype}; {wanted.needed}", "an array")
    numbers: Array = array.astype(np.float64, copy=False)
    if numbers.size:
        low, high = float(numbers.min()), float(numbers.max())
        for number in (low, high):
            _checked(number, wanted, positive, number)
    return float(numbers) if numbers.ndim == 0 else numbers


@dataclass(frozen=True, slots=True)
class Quantity:
    """Marks a pydantic field as a quantity: `Annotated[Num, Quantity("bandwidth")]`.

    With validation context `{"file": True}` a bare number is refused where a unit is due.
    """

    dimension: str
    positive: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        wanted, positive = dimension(self.dimension), self.positive

        def check(value: Any, info: ValidationInfo) -> Num:
            from_file = bool(info.context and info.context.get("file"))
            return to_si(value, wanted, bare=not from_file, positive=positive)

        def write(value: Any) -> Any:
            return value.tolist() if isinstance(value, np.ndarray) else _written(value, wanted)

        return core_schema.with_info_plain_validator_function(
            check,
            serialization=core_schema.plain_serializer_function_ser_schema(write, when_used="json"),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        wanted = dimension(self.dimension)
        examples = [example.strip('"') for example in wanted.examples]
        if wanted.bare:
            number: dict[str, Any] = {"type": "number", "minimum": 0, "examples": [float(examples[0])]}
            if wanted.most is not None:
                number["maximum"] = wanted.most
            leaf: list[dict[str, Any]] = [number, {"type": "string", "pattern": "^[0-9._]+ *%$"}]
        else:
            leaf = [{"type": "string", "examples": examples}]
        return {"description": f"{wanted.noun}, {' or '.join(examples)}", "anyOf": [*leaf, _cited(leaf)]}


def _written(value: Any, wanted: Dimension) -> Any:
    """A number as a file may hold it: with its unit, where it has one."""
    return value if wanted.bare or not isinstance(value, int | float) else spelled(value, wanted)


def _cited(leaf: list[dict[str, Any]]) -> dict[str, Any]:
    """The JSON schema of `{value: ..., source: ..., status: ...}`."""
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["value"],
        "additionalProperties": False,
        "properties": {
            "value": leaf[0] if len(leaf) == 1 else {"anyOf": leaf},
            "source": text,
            "status": {"enum": list(STATUSES)},
            "calibrated": {"type": "boolean"},
            "note": text,
        },
    }


STATUSES = ("datasheet", "measured", "fitted", "assumed")
Status = Literal["datasheet", "measured", "fitted", "assumed"]
"""Where a number comes from."""

Bytes = Annotated[Num, Quantity("bytes")]
Bandwidth = Annotated[Num, Quantity("bandwidth")]
FlopRate = Annotated[Num, Quantity("flop_rate")]
Seconds = Annotated[Num, Quantity("seconds")]
Hertz = Annotated[Num, Quantity("hertz")]
Watts = Annotated[Num, Quantity("watts")]
Joules = Annotated[Num, Quantity("joules")]
JoulesPerByte = Annotated[Num, Quantity("joules_per_byte")]
JoulesPerFlop = Annotated[Num, Quantity("joules_per_flop")]
Usd = Annotated[Num, Quantity("usd")]
UsdPerJoule = Annotated[Num, Quantity("usd_per_joule")]
SampleRate = Annotated[Num, Quantity("sample_rate")]
Fraction = Annotated[Num, Quantity("fraction")]
Ratio = Annotated[Num, Quantity("ratio")]

PositiveBytes = Annotated[Num, Quantity("bytes", positive=True)]
PositiveBandwidth = Annotated[Num, Quantity("bandwidth", positive=True)]
PositiveFlopRate = Annotated[Num, Quantity("flop_rate", positive=True)]
PositiveHertz = Annotated[Num, Quantity("hertz", positive=True)]
PositiveRequestRate = Annotated[Num, Quantity("request_rate", positive=True)]
PositiveSeconds = Annotated[Num, Quantity("seconds", positive=True)]
PositiveFraction = Annotated[Num, Quantity("fraction", positive=True)]
PositiveRatio = Annotated[Num, Quantity("ratio", positive=True)]

MOST = 10**15
"""No count in a design is larger: above it float64 would no longer count exactly."""

Count = Annotated[int, Field(strict=True, ge=1, le=MOST)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=MOST)]
"""Plain numbers of things; 8, never 8.0, true or "8"."""


# --- element types ------------------------------------------------------------------------------------------

Dtype = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int32", "int64", "uint8"]

DTYPES: dict[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1,
    "int8": 1, "int32": 4, "int64": 8, "uint8": 1,
}  # fmt: skip
"""Bytes per element of every type a design may name; tf32 is stored as fp32."""


def itemsize(dtype: str) -> int:
    """Bytes per element of `dtype`; `QuantityError` names the known types."""
    if dtype not in DTYPES:
        raise QuantityError(f"is no element type; known: {', '.join(DTYPES)}", shown(dtype))
    return DTYPES[dtype]
