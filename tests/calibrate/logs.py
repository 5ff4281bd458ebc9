"""Logs as nccl-tests prints them, written from published times."""

from __future__ import annotations

from pathlib import Path

A100_X8 = {
    "all_reduce": {
        512: 22.57,
        8192: 21.27,
        131072: 27.41,
        524288: 30.08,
        2097152: 53.7,
        8388608: 128.0,
        134217728: 1169.1,
    },
    "all_gather": {
        512: 15.56,
        8192: 14.58,
        131072: 20.91,
        524288: 21.93,
        2097152: 33.45,
        8388608: 73.51,
        134217728: 660.3,
    },
    "reduce_scatter": {
        512: 15.58,
        8192: 14.52,
        131072: 18.16,
        524288: 19.08,
        2097152: 34.21,
        8388608: 79.49,
        134217728: 624.0,
    },
    "alltoall": {
        512: 15.82,
        8192: 15.93,
        131072: 16.56,
        524288: 18.98,
        2097152: 38.57,
        8388608: 67.84,
        134217728: 640.5,
    },
}
"""Microseconds by bytes, 8 A100 SXM, NCCL 2.27.3, half: ai-dynamo/aiconfigurator @095f58a, Apache-2.0."""

P4DE_X2 = {
    8: (164.3, 163.3),
    1024: (165.0, 164.8),
    32768: (224.6, 223.7),
    262144: (238.2, 235.5),
    1048576: (309.4, 307.3),
}
P4DE_X2 |= {
    8388608: (762.8, 760.7),
    33554432: (1540.2, 1540.7),
    134217728: (3912.9, 3932.8),
    1073741824: (26217.0, 26194.0),
}
"""Microseconds out of place and in place, all_reduce, two p4de.24xlarge: aws-samples/awsome-distributed-training,
micro-benchmarks/nccl-tests README, MIT-0."""

REDUCTION = {"all_reduce": "sum", "reduce_scatter": "sum", "all_gather": "none", "alltoall": "none"}

_HEADER = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
HEADER = "".join(line + "          \n" for line in _HEADER.splitlines())
"""Lines end in blanks, as printed."""

FOOTER = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 70.7034
#
"""


def row(program: str, n: int, size: int, times: tuple[float, ...], width: int, dtype: str = "half") -> str:
    share = (n - 1) / n * (2 if program == "all_reduce" else 1)
    columns = []
    for time in times:
        rate = size / time / 1e3
        columns.append(f"{time:>9.2f} {rate:>7.2f} {rate * share:>7.2f}      0")
    return f"{size:>12} {size // width:>13} {dtype:>9} {REDUCTION[program]:>7}      -1 {' '.join(columns)}\n"


def devices(n: int, name: str, hosts: int = 1) -> str:
    lines = ["# Using devices\n"]
    for rank in range(n):
        local = rank % (n // hosts)
        host = f"node-{rank * hosts // n}"
        lines.append(
            f"#  Rank {rank:>2} Group  0 Pid {4000 + rank} on {host:>10} device {local:>2} [0x{local + 7:02x}] {name}\n"
        )
    return "".join(lines)


def a100(program: str) -> str:
    """A whole log of one of the four programs."""
    rows = [row(program, 8, size, (time, time), 2) for size, time in A100_X8[program].items()]
    start = f"# nThread 1 nGpus 8 minBytes 512 maxBytes 134217728 step: 4(factor) iters: 20\n#\n# {program}_perf\n"
    return start + devices(8, "NVIDIA A100-SXM4-80GB") + HEADER + "".join(rows) + FOOTER


def p4de() -> str:
    """Two nodes under Open MPI: every line tagged, the library's own messages between them."""
    rows = [row("all_reduce", 16, size, times, 4, "float") for size, times in P4DE_X2.items()]
    noise = "p4de-0:4000:4101 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7\n"
    text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor)\n#\n" + devices(
        16, "NVIDIA A100-SXM4-80GB", 2
    )
    text += HEADER + noise.join(rows) + FOOTER
    tagged = "".join(f"[1,0]<stdout>:{line}" for line in text.splitlines(keepends=True))
    command = "+ mpirun -np 16 --tag-output /opt/nccl-tests/build/all_reduce_perf -b 8 -e 1G -f 2 -g 1\n"
    return command + "Warning: Permanently added 'node-1' to the list of known hosts.\n" + tagged


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file
