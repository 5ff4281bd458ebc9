"""Docstrings for Sphinx: indented equations in plain text become MathML, other indented blocks stay as they are.

    t = launch + max(bytes / bandwidth, flops / peak)      a remark after three spaces

Words are text, single letters and names with an underscore are symbols. MathML needs no script and no network.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[A-Za-z][A-Za-z0-9']*)|(?P<op><=|>=|!=|\.\.\.|[-+*/^=(),<>|!~.:\[\]{}_%]))"
)
_GREEK = {"alpha", "beta", "gamma", "eta", "rho", "sigma", "mu", "lambda", "tau", "theta", "pi"}
_OPERATORS = {"<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "...": r"\dots ", "*": r"\,", "~": r"\approx ", "%": r"\%"}
_FUNCTIONS = {"max": r"\max ", "min": r"\min ", "log": r"\log ", "exp": r"\exp ", "sum": r"\sum "}
_EQUATION = re.compile(r"^\S.*(?:\s|^)(?:=|<=|>=)\s|^[-+]\s|^\S+\(.*\)\s*$|^(?:max|min)\(")
_CODE = re.compile(r"#|\"|'\w|`|->|\w\.\w|\\")


class NoEquationError(ValueError):
    """Plain text that is none."""


def latex(line: str) -> str:
    """LaTeX of one line of plain mathematics. Raises NoEquationError."""
    formula, _, remark = re.sub(r"\s{3,}", "\0", line.strip(), count=1).partition("\0")
    tokens = _tokens(formula)
    if sum(v == "(" for _, v in tokens) != sum(v == ")" for _, v in tokens):
        raise NoEquationError("unbalanced")
    result = _sequence(tokens)
    return f"{result} \\qquad \\text{{{remark}}}" if remark else result


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoEquationError(text)
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return tokens


def _sequence(tokens: list[tuple[str, str]]) -> str:
    """Words in a row are one text, `x` between operands is a product, _ and ^ bind what follows."""
    out: list[str] = []
    words: list[str] = []

    def flush() -> None:
        if words:
            out.append(_word(words))
            words.clear()

    i = 0
    while i < len(tokens):
        kind, value = tokens[i]
        if kind == "name" and value == "x" and out + words and i + 1 < len(tokens) and tokens[i + 1][1] not in "=_,)":
            flush()
            out.append(r"\times ")
        elif kind == "name" and value == "sqrt" and i + 1 < len(tokens) and tokens[i + 1][1] == "(":
            flush()
            end = _closing(tokens, i + 1)
            out.append(rf"\sqrt{{{_sequence(tokens[i + 2 : end])}}}")
            i = end
        elif kind == "name" and value == "ceil" and i + 1 < len(tokens) and tokens[i + 1][1] == "(":
            flush()
            end = _closing(tokens, i + 1)
            out.append(rf"\lceil {_sequence(tokens[i + 2 : end])} \rceil ")
            i = end
        elif kind == "name" and value in _FUNCTIONS:
            flush()
            out.append(_FUNCTIONS[value])
        elif kind == "name":
            words.append(value)
            if i + 1 < len(tokens) and tokens[i + 1][1] == "_":
                last = words.pop()
                flush()
                below, i = _group(tokens, i + 2)
                out.append(f"{_word([last])}_{{{below}}}")
        elif value in "_^" and kind == "op":
            flush()
            group, i = _group(tokens, i + 1)
            out.append(f"{value}{{{group}}}")
        else:
            flush()
            out.append(_OPERATORS.get(value, value if value not in "{}" else "\\" + value))
        i += 1
    flush()
    return " ".join(out)


def _word(words: list[str]) -> str:
    if all(len(w) == 1 for w in words):
        return " ".join(words)
    return " ".join([f"\\{words[0]}" if words[0] in _GREEK else rf"\text{{{' '.join(words)}}}"])


def _closing(tokens: list[tuple[str, str]], at: int) -> int:
    opens, closes = tokens[at][1], {"(": ")", "{": "}"}[tokens[at][1]]
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i][1] == opens) - (tokens[i][1] == closes)
        if depth == 0:
            return i
    raise NoEquationError("unbalanced")


def _group(tokens: list[tuple[str, str]], at: int) -> tuple[str, int]:
    """What an underscore or a caret binds, and its last token."""
    if at >= len(tokens):
        raise NoEquationError("nothing below or above")
    if tokens[at][1] in ("(", "{"):
        end = _closing(tokens, at)
        return _sequence(tokens[at + 1 : end]), end
    if tokens[at][1] == "-":
        inner, end = _group(tokens, at + 1)
        return f"-{inner}", end
    return _sequence(tokens[at : at + 1]), at


def restructured(lines: list[str]) -> list[str]:
    """A docstring in plain text as reStructuredText."""
    result: list[str] = []
    i = 0
    while i < len(lines):
        if lines[i].startswith("    "):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            block = [line[4:] for line in lines[i:end]]
            result += ["", *_block(block), ""]
            i = end
        else:
            result.append(_escaped(lines[i]))
            i += 1
    return result


def _block(block: list[str]) -> list[str]:
    while block and not block[-1].strip():
        block.pop()
    joined: list[str] = []
    for line in block:  # a continuation goes to the line that it continues
        if line.startswith("  ") and joined and line.strip():
            joined[-1] += " " + line.strip()
        elif line.strip():
            joined.append(line.rstrip())
    if joined and all(_EQUATION.search(x) and not _CODE.search(x) for x in joined):
        try:
            made = [latex(x) for x in joined]
            for one in made:
                latex2mathml.tex2mathml(one)
        except (NoEquationError, SyntaxError, KeyError, IndexError, ValueError):
            pass
        else:
            return [row for one in made for row in (".. math::", "", f"   {one}", "")]
    return ["::", "", *(f"   {line}" for line in block)]


def _escaped(line: str) -> str:
    """Text outside backticks says nothing to reStructuredText; `code` is code."""
    parts = line.split("`")
    if len(parts) % 2 == 0:
        return re.sub(r"([*_|\\`])", r"\\\1", line)
    return "".join(re.sub(r"([*_|\\])", r"\\\1", part) if i % 2 == 0 else f"``{part}``" for i, part in enumerate(parts))


def _docstring(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _signature(
    app: Any, what: str, name: str, item: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A class that reads files is called with a mapping: its fields say what is in it."""
    from pydantic import BaseModel

    return ("", returns) if isinstance(item, type) and issubclass(item, BaseModel) else (signature, returns)


def _visit(self: Any, node: nodes.Element) -> None:
    display = isinstance(node, nodes.math_block)
    text = latex2mathml.tex2mathml(node.astext(), as_block=display)
    self.body.append(f'<div class="math">{text}</div>' if display else text)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the conversion and MathML as the renderer of equations."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
