"""A Ray cluster of this machine for tests: two cores, no dashboard, 300 MB for objects.

Run as a script: prints the address, and ends when its standard input does.
"""

import os
import subprocess
import sys
from contextlib import contextmanager

OWN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def cluster(folder):
    """Lend the address of a cluster that works in a folder."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **OWN},
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    import ray

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=300_000_000,
        log_to_driver=False,
        _temp_dir=sys.argv[1],
    )
    sys.stdout.write(ray.get_runtime_context().gcs_address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    ray.shutdown()
