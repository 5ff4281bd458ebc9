"""Runs every study into one folder, with an index page: `make studies`.

    python studies/_gallery.py [-o docs/gallery] [-j 2] [NAME ...]

A study is a script of this folder whose name begins with no underscore and that takes `-o PAGE`. Studies that fail are
named at the end, with what they said, and make the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

HERE = Path(__file__).resolve().parent
NO_PAGES = ("measure_gpu",)
"""Scripts that are no studies: this one measures a GPU and writes a table."""
LIMIT = 600.0
"""Seconds after which a study has failed."""


@dataclass(frozen=True)
class Entry:
    """A study, and the page that it writes."""

    source: Path
    page: Path

    @property
    def name(self) -> str:
        """`neo`."""
        return self.source.stem

    def run(self) -> str:
        """Makes the page; what went wrong, or nothing."""
        self.page.unlink(missing_ok=True)
        paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, str(self.source), "-o", str(self.page)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return f"took more than {LIMIT:.0f} s"
        if done.returncode:
            return (done.stderr or done.stdout).strip() or f"ended with {done.returncode}"
        return "" if self.page.is_file() else "wrote no page"

    def title(self) -> str:
        """The page's title."""
        found = re.search(r"<title>(.*?)</title>", self._head(), re.DOTALL)
        return unescape(found[1]).strip() if found else self.name

    def takeaway(self) -> str:
        """The sentence that the page gives as its description; else the first of the source's own text."""
        found = re.search(r"<meta name=[\"']description[\"'] content=[\"'](.*?)[\"']>", self._head(), re.DOTALL)
        if found:
            return unescape(found[1]).strip()
        return self.source.read_text(encoding="utf-8").lstrip().lstrip('"').partition("\n")[0].strip()

    def _head(self) -> str:
        with self.page.open(encoding="utf-8") as file:
            return file.read(50_000)


def entries(folder: Path, out: Path, names: Sequence[str] = ()) -> list[Entry]:
    """The studies of a folder by name, or those named. Raises SystemExit for a name that is none."""
    files = sorted(folder.glob("*.py"), key=lambda f: f.stem)
    found = {f.stem: Entry(f, out / f"{f.stem}.html") for f in files if f.stem[0] != "_" and f.stem not in NO_PAGES}
    unknown = [n for n in names if n not in found]
    if unknown:
        raise SystemExit(f"no study {unknown[0]}; there are {', '.join(found)}")
    return [e for n, e in found.items() if not names or n in names]


STYLE = (
    "body{margin:0 auto;max-width:900px;padding:16px;font:15px/1.5 system-ui,sans-serif;"
    "color:#20242c;background:#f4f5f7}"
    "h1{font-size:22px}ul{list-style:none;padding:0}li{background:#fff;border:1px solid #dde1e7;border-radius:8px;"
    "padding:10px 14px;margin:0 0 10px;overflow-wrap:anywhere}a{color:#2f6db5;font-weight:600;text-decoration:none}"
    "a:hover{text-decoration:underline}p{margin:4px 0 0}small{color:#5b6472}.bad{border-color:#b3261e}"
    "@media "
    "(prefers-color-scheme:dark){body{color:#e4e7ec;background:#101216}"
    "li{background:#191c22;border-color:#333943}"
    "a{color:#7fb2ee}small{color:#a2abb8}}"
)


def index(all_of: Sequence[Entry], failed: Sequence[str] = ()) -> str:
    """The index page: the same bytes for the same pages."""
    items = []
    for e in all_of:
        run = f"<small>{escape(e.source.name)}</small>"
        if e.name in failed:
            items.append(f'<li class="bad">{escape(e.name)} failed<br>{run}</li>')
        elif e.page.is_file():
            link = f'<a href="{escape(e.page.name)}">{escape(e.title())}</a>'
            items.append(f"<li>{link}<p>{escape(e.takeaway())}</p>{run}</li>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>archmodel: studies</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>Studies</h1>\n<p>One page each, with what was published, what "
        "archmodel predicts and why they differ. Pages work offline.</p>\n<ul>\n" + "\n".join(items) + "\n</ul>\n"
        "</body>\n</html>\n"
    )


def main(arguments: Sequence[str] | None = None, folder: Path = HERE) -> int:
    """The command: 0 when every study wrote its page, else 1."""
    parser = argparse.ArgumentParser(description="Runs every study into one folder, with an index page.")
    parser.add_argument("names", nargs="*", help="studies to run; left out: all")
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "docs" / "gallery", help="the folder")
    parser.add_argument("-j", "--jobs", type=int, default=min(os.cpu_count() or 1, 2), help="studies at a time")
    chosen = parser.parse_args(arguments)
    out: Path = chosen.output.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = entries(folder, out, chosen.names)
    failed: dict[str, str] = {}

    def timed(entry: Entry) -> tuple[str, float]:
        begin = time.perf_counter()
        return entry.run(), time.perf_counter() - begin

    with ThreadPoolExecutor(max(chosen.jobs, 1)) as pool:
        running = {pool.submit(timed, entry): entry for entry in wanted}
        for done, future in enumerate(as_completed(running), 1):
            entry, (problem, seconds) = running[future], future.result()
            if problem:
                failed[entry.name] = problem
            how = "failed" if problem else str(entry.page.name)
            print(f"[{done}/{len(wanted)}] {entry.name:20} {seconds:5.0f} s  {how}", flush=True)
    (out / "index.html").write_text(index(entries(folder, out), list(failed)), encoding="utf-8")
    print(out / "index.html")
    for name, problem in sorted(failed.items()):
        print(f"\n{name} failed:\n" + "\n".join(f"  {line}" for line in problem.splitlines()[-12:]), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
