"""CPU time of short commands beside an empty Python, in one run.

python benchmarks/startup.py [--rounds 15] [--json]
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from side_by_side import run_in_turn

SAMPLE = Path(__file__).parent.parent / "sample_groups" / "rollouts.parquet"


def main():
    """Run all, print what each takes more than an empty Python."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    gagar = [sys.executable, "-c", "from gagar_cli.__main__ import main; main()"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        quiet = [sys.executable, "-c", "import sys, os; os.dup2(os.open(os.devnull, 1), 1)"]
        quiet[-1] += "; from gagar_cli.__main__ import main; main()"
        commands = {
            "`python -c pass`": [sys.executable, "-c", "pass"],
            "`gagar --help`": [*quiet, "--help"],
            "`gagar filter` on the sample": [
                *(*gagar, "filter", str(SAMPLE)),
                *("-q", "-o", str(folder / "kept.parquet")),
            ],
        }
        costs = run_in_turn(commands, folder, chosen.rounds)
    if chosen.json:
        print(json.dumps({name: asdict(cost) for name, cost in costs.items()}))
        return
    base = costs["`python -c pass`"]
    print("| | seconds | CPU seconds | more than Python | peak MiB |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, cost in costs.items():
        more = cost.cpu - base.cpu
        print(f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {more:.2f} | {cost.peak:,.0f} |")


if __name__ == "__main__":
    main()
