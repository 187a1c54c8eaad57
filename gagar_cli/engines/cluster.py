"""Connect to a Ray cluster, or start one on this machine."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gagar_cli.errors import EngineError
from gagar_cli.options import Cluster

_OWN = "local"


@contextmanager
def connected(cluster: Cluster) -> Iterator[int]:
    """Connect, and lend the number of CPUs of the cluster; one that we start ends with the block.

    Ray that is not installed, a cluster that cannot be reached, and workers that are lost again and
    again raise EngineError.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # heard by a cluster of our own
    try:
        import ray  # noqa: PLC0415  may be absent, and is slow to import
        import ray.data  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            "--engine ray", "needs Ray, which is not installed", "pip install 'gagar[ray]'"
        ) from error
    address = cluster.address or _OWN
    own: dict[str, Any] = {"include_dashboard": False} if address == _OWN else {}
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise EngineError(
            f"Ray at {address}", f"cannot be reached ({_first_line(error)})", "check --ray-address"
        ) from error
    try:
        signal.signal(signal.SIGTERM, terminate)  # Ray has put its own in place
        _keep_quiet()
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    except ray.exceptions.RayTaskError:
        raise  # a defect of ours, with the traceback of where it was
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"Ray at {address}",
            f"has lost workers or data for good ({_first_line(error)})",
            "more memory for each worker, or more --partitions; votes that were given are kept",
        ) from error
    finally:
        ray.shutdown()


def _keep_quiet() -> None:
    from ray.data import DataContext  # noqa: PLC0415

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
