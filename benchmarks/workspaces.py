"""Shared workspaces against full checkouts: making them, and one tool call in them, in one run.

    python benchmarks/workspaces.py [--rounds 5] [--repo PATH COMMIT] [--part assemble] [--json]

A made repository, always the same: 5,500 files, 40 MB. Sixteen patches each change a few of its
files and add one. `assemble` makes all candidates, base included, with `build_workspace`, with the
whole command line, and as full checkouts: `git clone --shared`, `git worktree add`, `cp -al`.
`tools` reads, searches and compares through `Workspace`, and with `cat`, `grep` and `diff` in the
full checkouts; every answer must equal theirs. `growth` makes more candidates and more groups.
Everything runs in a process of its own, in turn; numbers are medians over rounds.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, FOLDERS = 5500, 700
CANDIDATES = 16
WORDS = [
    "request",
    "response",
    "session",
    "header",
    "cookie",
    "field",
    "value",
    "query",
    "model",
    "index",
    "cache",
    "token",
    "config",
    "parser",
    "writer",
    "reader",
    "buffer",
    "stream",
    "engine",
    "filter",
    "group",
    "order",
    "result",
    "column",
    "table",
    "record",
    "message",
    "handler",
    "manager",
    "context",
    "option",
    "default",
]
# What agents look for: a name, an expression, a class of characters, alternatives, a rare line,
# a number, and what stands in every file.
PATTERNS = (
    "cookie_buffer_12",
    r"def stream_.*_77\(",
    "[A-Z][a-z]+Error.*_of_",
    "(header|nothing)_value_[0-9]+1",
    "rare_change_[0-9]",
    "[0-9]{5}",
    r"\bitem\.token\b",
)


def module_text(draw, size):
    """Return Python-like text of about this size."""
    parts = [f'"""{draw.choice(WORDS).capitalize()}s."""\n\nimport {draw.choice(WORDS)}\n\n\n']
    room = size - len(parts[0])
    while room > 0:
        a, b, c = draw.choices(WORDS, k=3)
        number = draw.randrange(10_000)
        part = (
            f"def {a}_{b}_{number}({c}, {b}=None):\n"
            f'    """Return the {a} of a {c}, for {draw.choice(WORDS)}s."""\n'
            f"    if {b} is None:\n"
            f'        raise {c.capitalize()}Error("no {b} for {a} {number}")\n'
            f"    {a} = [{c}.{b}(item) for item in {c} if item.{a} > {draw.randrange(100)}]\n"
            f'    return {{"{a}": {a}, "{b}": {b}}}\n\n\n'
        )
        parts.append(part)
        room -= len(part)
    return "".join(parts)


def git(folder, *arguments, stdin=None):
    """Run git; return its output."""
    who = ["-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "gc.auto=0"]
    return subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], input=stdin, check=True, capture_output=True
    ).stdout


def make_repository(folder, files=FILES, seed=1):
    """Write and commit the files; return the commit."""
    draw = random.Random(seed)
    for number in range(files):
        size = int(min(200_000, draw.lognormvariate(8.2, 1.2)))
        place = draw.randrange(FOLDERS)
        tests = "tests/" if place % 3 == 0 else ""
        inner = f"{WORDS[place % 9]}/{WORDS[place // 9 % 9]}_{place // 81}/{tests}"
        path = folder / inner / f"{draw.choice(WORDS)}_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(module_text(draw, size))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "gc", "-q")
    return git(folder, "rev-parse", "HEAD").decode().strip()


def make_patches(repository, commit, scratch, count, seed=2):
    """Return patches that each change some Python files of a repository, and add one."""
    draw = random.Random(seed)
    tree = scratch / "patched"
    git(repository, "worktree", "add", "-q", "--detach", str(tree), commit)
    paths = sorted(p for p in git(tree, "ls-files", "-z").decode().split("\0") if p[-3:] == ".py")
    patches = []
    for number in range(count):
        for path in draw.sample(paths, draw.randrange(1, 6)):
            lines = (tree / path).read_text(errors="surrogateescape").split("\n")
            for _ in range(draw.randrange(1, 4)):
                place = draw.randrange(len(lines))
                lines[place : place + draw.randrange(2)] = [f"rare_change_{number} = {place}"]
            (tree / path).write_text("\n".join(lines), errors="surrogateescape")
        new = tree / f"{draw.choice(WORDS)}_new_{number}.py"
        new.write_text(module_text(draw, 2000))
        git(tree, "add", "-A")
        patches.append(git(tree, "diff", "--cached", "--binary"))
        git(tree, "reset", "-q", "--hard")
    git(repository, "worktree", "remove", "--force", str(tree))
    return patches


# Assembling


def workspace_of(repository, commit, patches, root, group="group"):
    """Build one workspace, and return it as built, with rollouts named 0, 1, …."""
    from gagar_cli.options import AssembleOptions
    from gagar_cli.workspace.build import GroupPatches, build_workspace
    from gagar_cli.workspace.repositories import RepositoryFinder

    found = RepositoryFinder([repository.parent], root / "cache").find(repository.name)
    rollouts = [str(number) for number in range(len(patches))]
    return build_workspace(
        GroupPatches(group, "Fix it.", rollouts, lambda: patches, found, commit),
        AssembleOptions(root=str(root)),
    )


def by_workspace(repository, commit, patches, root):
    """Ours, from the call of the function on."""
    built = workspace_of(repository, commit, patches, root)
    statuses = {candidate.status for candidate in built.candidates.values()}
    if statuses != {"applied"}:
        raise SystemExit(f"got patches {statuses}, expected all applied")


def by_command(repository, commit, patches, root):
    """`gagar assemble` as a user starts it: Python, Parquet in and out, and the workspace."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root.mkdir(parents=True)
    rows = [
        {"group_id": "g", "rollout_id": str(n), "passed": True, "repo": str(repository)}
        | {"base_commit": commit, "problem_statement": "Fix it.", "patch": patch.decode()}
        for n, patch in enumerate(patches)
    ]
    pq.write_table(pa.Table.from_pylist(rows), root / "in.parquet")
    began = time.perf_counter()
    command = [sys.executable, "-m", "gagar_cli", "assemble", "in.parquet", "-q"]
    subprocess.run(command, check=True, cwd=root, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def by_clone(repository, commit, patches, root):
    """Clone with borrowed objects, for each candidate."""
    for number, patch in enumerate(patches):
        place = root / str(number)
        git(root.parent, "clone", "-q", "--shared", "--no-checkout", str(repository), str(place))
        git(place, "checkout", "-q", commit)
        git(place, "apply", "--index", "-", stdin=patch)


def by_worktree(repository, commit, patches, root):
    """Add a work tree of one fresh clone for each candidate."""
    shared = root / "shared.git"
    git(root.parent, "clone", "-q", "--shared", "--bare", str(repository), str(shared))
    for number, patch in enumerate(patches):
        place = root / str(number)
        git(shared, "worktree", "add", "-q", "--detach", str(place), commit)
        git(place, "apply", "--index", "-", stdin=patch)


def by_links(repository, commit, patches, root):
    """One checkout, and hard links to its files for each candidate; the source's objects serve."""
    root.mkdir(parents=True)
    base = root / "base"
    by_tree(repository, commit, patches, base)
    for number, patch in enumerate(patches):
        place = root / str(number)
        subprocess.run(["cp", "-al", str(base), str(place)], check=True)
        git(place, "apply", "-", stdin=patch)


def by_tree(repository, commit, _patches, root):
    """Write the base tree alone, once: what nobody who writes files can go below."""
    root.mkdir(parents=True)
    index = root.parent / f"{root.name}.index"
    environment = {**os.environ, "GIT_INDEX_FILE": str(index), "GIT_DIR": str(git_dir(repository))}
    for command in (["read-tree", commit], ["checkout-index", "-a", f"--prefix={root}/"]):
        subprocess.run(["git", *command], check=True, env=environment)
    index.unlink()


def git_dir(repository):
    """Return a repository's own folder."""
    return Path(git(repository, "rev-parse", "--absolute-git-dir").decode().strip())


MAKERS = {
    "`build_workspace`": by_workspace,
    "`gagar assemble`, from its start": by_command,
    "`git clone --shared` each": by_clone,
    "`git worktree add` each": by_worktree,
    "`cp -al` each": by_links,
    "limit: the base tree once": by_tree,
}


def _made(maker, arguments, results):
    # As in the peers, starting is not counted.
    for module in ("build", "view"):
        importlib.import_module(f"gagar_cli.workspace.{module}")

    began, spent = time.perf_counter(), cpu()
    seconds = maker(*arguments) or time.perf_counter() - began
    results.put((seconds, cpu() - spent, peak()))


def cpu():
    """Return the CPU seconds of this process and of those that it started and ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def peak():
    """Return the peak memory of this process in MiB, without its parent's, which getrusage adds."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def apart(function, *arguments):
    """Run in a fresh process, and return what it put into the queue."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=function, args=(*arguments, results))
    process.start()
    answer = results.get() if _comes(results, process) else None
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__}: ended with {process.exitcode}")
    return answer


def _comes(results, process):
    while results.empty():
        if not process.is_alive():
            return not results.empty()
        time.sleep(0.01)
    return True


def sizes(folder):
    """Return MB on disk and the number of inodes; a file under two names counts once."""
    seen = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            state = Path(place, name).lstat()
            seen[state.st_ino] = state.st_blocks * 512
    return sum(seen.values()) / 1e6, len(seen)


def assemble(scene, rounds):
    """Make all candidates in each way, in turn; return a row for each."""
    found = {name: [] for name in MAKERS}
    kept = {}
    for number in range(rounds):
        for name, maker in MAKERS.items():
            root = scene.folder / f"made-{number}-{list(MAKERS).index(name)}"
            os.sync()  # nobody pays for what the one before has left to write
            found[name].append(apart(_made, maker, (*scene.parts(), root)))
            kept[name] = sizes(root)
            shutil.rmtree(root)
    clone = kept[MAKER_OF["clone"]]
    rows = []
    for name, measured in found.items():
        seconds, spent, memory = (
            statistics.median(column) for column in zip(*measured, strict=True)
        )
        against = {
            peer: statistics.median(
                a[0] / b[0] for a, b in zip(measured, found[MAKER_OF[peer]], strict=True)
            )
            for peer in MAKER_OF
        }
        rows.append(
            {
                "what": name,
                "seconds": seconds,
                "cpu": spent,
                **{f"x {peer}": ratio for peer, ratio in against.items()},
                "MB": kept[name][0],
                "x MB": kept[name][0] / clone[0],
                "inodes": kept[name][1],
                "x inodes": kept[name][1] / clone[1],
                "peak MiB": memory,
            }
        )
    return rows


MAKER_OF = {"clone": "`git clone --shared` each", "worktree": "`git worktree add` each"}


# Tools


def _tools(folder, names, checkouts, results):
    """Time every tool in one process, beside its peer; check that the answers are equal."""
    from gagar_cli.workspace.view import Workspace

    labels, real = list(names), {name: Path(checkouts[name]) for name in names}
    draw = random.Random(3)
    one = labels[0]
    took = {}

    def timed(what, function, *arguments):
        began, spent = time.perf_counter(), cpu()
        answer = function(*arguments)
        took.setdefault(what, []).append((time.perf_counter() - began, cpu() - spent))
        return answer

    workspace = timed("open a workspace", Workspace.open, Path(folder))
    first = timed("search one, the first time", workspace.search, one, PATTERNS[0])
    found = timed("`grep -rnE`, one checkout", grepped, PATTERNS[0], [real[one]])
    same(PATTERNS[0], lines_of(first, one), found[str(real[one])])
    paths = workspace.files(one)
    for path in draw.sample(paths, 200):
        label = draw.choice(labels)
        if path in workspace.files(label):
            ours = timed("read a file", workspace.read, label, path)
            command = ["cat", str(real[label] / path)]
            peer = timed("`cat`", lambda command=command: subprocess.check_output(command))
            same(path, ours, peer)
    for pattern in PATTERNS:
        label = draw.choice(labels)
        ours = timed("search one", workspace.search, label, pattern)
        peer = timed("`grep -rnE`, one checkout", grepped, pattern, [real[label]])
        same(pattern, lines_of(ours, label), peer[str(real[label])])
        ours = timed("search all", workspace.search_all, pattern)
        ours = {name: lines_of(ours, name) for name in labels}
        peer = timed("`grep -rnE`, all checkouts", grepped, pattern, list(real.values()))
        same(pattern, ours, {name: peer[str(real[name])] for name in labels})
    for _ in range(12):
        old, new = draw.sample(labels, 2)
        ours = timed("diff two", workspace.diff, old, new)
        peer = timed("`diff -r`", differing, real[old], real[new])
        same(f"{old} {new}", sorted(set(changed_paths(ours))), sorted(set(peer)))
    results.put(
        {what: list(map(statistics.median, zip(*t, strict=True))) for what, t in took.items()}
    )


def grepped(pattern, folders):
    """Search checkouts with grep; return path, line and text of each hit by checkout, sorted."""
    command = ["grep", "-rnIE", "-Z", "--exclude-dir=.git", "--exclude=.git"]
    done = subprocess.run(
        [*command, "-e", pattern, *map(str, folders)],
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    found = {str(folder): [] for folder in folders}
    for line in done.stdout.split(b"\n")[:-1]:
        path, rest = line.split(b"\0", 1)
        number, text = rest.split(b":", 1)
        folder = next(f for f in found if path.startswith(os.fsencode(f) + b"/"))
        name = path[len(folder) + 1 :].decode("utf-8", "backslashreplace")
        found[folder].append((name, int(number), text.decode("utf-8", "backslashreplace")))
    return {folder: sorted(hits) for folder, hits in found.items()}


def lines_of(found, tree):
    """Return the hits of ours in one tree as those of grep."""
    if found.cut:
        raise SystemExit(f"a pattern with too many hits to compare: cut at {found.cut}")
    return sorted((hit.path, hit.line, hit.text) for hit, trees in found.hits if tree in trees)


def differing(old, new):
    """Compare two checkouts with diff; return the paths that differ."""
    command = ["diff", "-r", "-u", "-N", "-x", ".git", str(old), str(new)]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.decode()
    return [
        line.split(f" {new}/")[1]
        for line in out.split("\n")
        if line.startswith("diff -r") and f" {new}/" in line
    ]


def changed_paths(diff):
    """Return the paths in a diff of git's."""
    sections = diff.decode().split("\ndiff --git ")
    return [
        side
        for section in sections
        if section
        for side in (
            part[2:] for part in section.removeprefix("diff --git ").split("\n")[0].split(" ")
        )
    ]


def same(what, ours, peer):
    """End where ours and the peer disagree."""
    if ours != peer:
        raise SystemExit(
            f"{what}: ours and the peer's differ:\n{str(ours)[:500]}\n{str(peer)[:500]}"
        )


TOOLS = {
    "read a file": "`cat`",
    "search one": "`grep -rnE`, one checkout",
    "search one, the first time": "`grep -rnE`, one checkout",
    "search all": "`grep -rnE`, all checkouts",
    "diff two": "`diff -r`",
}


def tools(scene, rounds):
    """Run every tool beside its peer; return a row for each."""
    root = scene.folder / "tools"
    built = workspace_of(*scene.parts(), root)
    by_clone(*scene.parts(), scene.folder / "checkouts")
    checkouts = {
        candidate.label: str(scene.folder / "checkouts" / rollout)
        for rollout, candidate in built.candidates.items()
    }
    names = sorted(checkouts)
    measured = [apart(_tools, str(built.folder), names, checkouts) for _ in range(rounds)]
    rows = []
    for what, peer in TOOLS.items():
        ours, theirs = ([m[w] for m in measured] for w in (what, peer))
        rows.append(
            {
                "what": what,
                "ms": 1e3 * statistics.median(a[0] for a in ours),
                "cpu ms": 1e3 * statistics.median(a[1] for a in ours),
                "peer": peer,
                "peer ms": 1e3 * statistics.median(b[0] for b in theirs),
                "peer cpu ms": 1e3 * statistics.median(b[1] for b in theirs),
                "ratio": statistics.median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)),
            }
        )
    return rows


# Growth


def _grown(file, root, repositories, results):
    from gagar_cli.assembling import assemble as stage
    from gagar_cli.options import AssembleOptions
    from gagar_cli.parquet_io import open_source
    from gagar_cli.rollouts import Rollouts
    from gagar_cli.workspace.repositories import RepositoryFinder

    finder = RepositoryFinder([Path(repositories)], Path(root) / "cache")
    rollouts = Rollouts.of(open_source(file))
    began, spent = time.perf_counter(), cpu()
    _, summary = stage(rollouts, finder, AssembleOptions(root=root))
    results.put((summary.groups, time.perf_counter() - began, cpu() - spent, peak()))


def write_groups(file, groups, base, patches):
    """Write groups of large patches: each also adds a file of 40,000 lines, 0.35 MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = "".join(f"+# {n}\n" for n in range(40_000))
    header = "diff --git a/pad b/pad\nnew file mode 100644\n--- /dev/null\n+++ b/pad\n"
    names = ("group_id", "rollout_id", "repo", "base_commit", "patch")
    with pq.ParquetWriter(file, pa.schema([(name, pa.string()) for name in names])) as writer:
        for group in range(groups):
            head = f"{header}@@ -0,0 +1,40001 @@\n+# {group}\n"
            rows = [
                (f"g{group}", f"r{number}", "small", base, f"{patch.decode()}{head}{lines}")
                for number, patch in enumerate(patches)
            ]
            columns = zip(names, zip(*rows, strict=True), strict=True)
            writer.write_table(pa.table({name: list(column) for name, column in columns}))


def growth(scene, rounds):
    """Make 1, 4 and 16 times the candidates, and the groups; return a row for each."""
    repository, commit, patches = scene.parts()
    rows = []
    for count in (4, 16, 64):
        many = patches * (count // len(patches) + 1)
        found = []
        for number in range(rounds):
            root = scene.folder / f"grown-{count}-{number}"
            found.append(apart(_made, by_workspace, (repository, commit, many[:count], root)))
            shutil.rmtree(root)
        seconds, spent, memory = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append({"what": f"{count} candidates", "s": seconds, "cpu": spent, "MiB": memory})
    small = scene.folder / "small"
    small.mkdir()
    base = make_repository(small, 50)
    few = make_patches(small, base, scene.folder, 4)
    for groups in (16, 64, 256):
        file = scene.folder / f"{groups}.parquet"
        write_groups(file, groups, base, few)
        root = scene.folder / f"groups-{groups}"
        done, seconds, spent, memory = apart(_grown, str(file), str(root), str(scene.folder))
        shutil.rmtree(root)
        file.unlink()
        rows.append({"what": f"{done} groups of 4", "s": seconds, "cpu": spent, "MiB": memory})
    return rows


class Scene:
    """A repository, a commit, and patches on it, in a temporary folder."""

    def __init__(self, folder, given):
        """Make or take the repository."""
        self.folder = folder
        if given:
            self.repository, self.commit = Path(given[0]).resolve(), given[1]
        else:
            self.repository = folder / "repository"
            self.repository.mkdir()
            self.commit = make_repository(self.repository)
        self.patches = make_patches(self.repository, self.commit, folder, CANDIDATES)

    def parts(self):
        """Return what every maker takes, but for the place."""
        return self.repository, self.commit, self.patches


def markdown(rows):
    """Return rows as a table."""
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}"]
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PARTS = {"assemble": assemble, "tools": tools, "growth": growth}


def main():
    """Print a table for each part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repo", nargs=2, metavar=("PATH", "COMMIT"))
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gagar-benchmark-") as name:
        scene = Scene(Path(name).resolve(), options.repo)
        found = {}
        for part in options.part or PARTS:
            found[part] = PARTS[part](scene, options.rounds)
            if not options.json:
                print(f"\n{markdown(found[part])}", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
