"""Groups without repositories whose patches say how good they are, for runs of the command line."""

import re

import tables
from scripted_server import labels_to_rank, submits


def shown_order(body):
    """Return the labels to rank in the order in which the prompt shows them."""
    return re.findall(
        r"^Candidate (\w+): passed, to be ranked", body["messages"][1]["content"], re.MULTILINE
    )


def qualities(body):
    """Return the quality of each candidate by label, as its diff tells."""
    found = re.findall(
        r"Diff of candidate (\w+) against base:.*?quality = (\d+)",
        body["messages"][1]["content"],
        re.DOTALL,
    )
    return {label: int(quality) for label, quality in found}


def knows(body):
    """Rank as the qualities say."""
    quality = qualities(body)
    return submits([[n] for n in sorted(labels_to_rank(body), key=lambda n: -quality[n])])


def patch(group, quality):
    return (
        f"diff --git a/g{group}.py b/g{group}.py\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/g{group}.py\n@@ -0,0 +1 @@\n+quality = {quality}\n"
    )


def write(path, sizes):
    """Write a file of groups with so many passing rollouts each, and one more that fails."""
    verdicts, patches = {}, []
    for number, size in enumerate(sizes):
        verdicts[f"g{number:02}"] = [True] * size + [False]
        patches += [patch(number, quality) for quality in range(size + 1)]
    return tables.write(path, tables.rollouts(verdicts).append_column("patch", [patches]))
