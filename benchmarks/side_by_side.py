"""Run commands in turn, several rounds, and tell what each took: the frame of the benchmarks.

Each run is a process of its own, so that its CPU time and peak memory are its own. Timings drift on
shared machines; ratios of medians within one run are what to compare.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What one process took: seconds of wall and of CPU, and its highest memory in MiB."""

    wall: float
    cpu: float
    peak: float


def run_once(command: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end; a failure raises."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall = time.perf_counter() - began
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_in_turn(
    commands: Mapping[str, Sequence[str]], folder: Path, rounds: int
) -> dict[str, Cost]:
    """Run all commands once per round, each round in another order; return medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            costs[name].append(run_once(commands[name], folder))
            print(f"  {name}: {costs[name][-1].wall:.2f} s", file=sys.stderr)
            os.sync()  # what one run wrote must not slow the next
    return {
        name: Cost(
            statistics.median(c.wall for c in found),
            statistics.median(c.cpu for c in found),
            statistics.median(c.peak for c in found),
        )
        for name, found in costs.items()
    }


def print_table(costs: Mapping[str, Cost], reference: str) -> None:
    """Print the medians, and what they are of the reference's."""
    base = costs[reference]
    print(f"| | seconds | x {reference} | CPU seconds | peak MiB | x {reference} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, cost in costs.items():
        print(
            f"| {name} | {cost.wall:.2f} | {cost.wall / base.wall:.2f} | {cost.cpu:.2f} "
            f"| {cost.peak:,.0f} | {cost.peak / base.peak:.2f} |"
        )
