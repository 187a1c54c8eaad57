"""The stage `grade` as commands run it: its files, its grader, its summary and warnings."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gagar_cli.commands._console import progress_bar, summary
from gagar_cli.commands._stages import Talk, check_apart
from gagar_cli.options import GradeFiles, GradeOptions

if TYPE_CHECKING:
    from gagar_cli.bias import Bias
    from gagar_cli.grading.contract import Usage
    from gagar_cli.grading.stage import GradeSummary
    from gagar_cli.rollouts import Rollouts

_REASONS = 5  # of groups without a grade, that are told


def check_grade_files(files: GradeFiles, others: Mapping[str, str | None]) -> None:
    """Raise where a file cannot be written or read, before any work is spent on it."""
    from gagar_cli.engines.stages import read_rubric

    check_apart("--transcripts", files.transcripts, others)
    read_rubric(files)


def do_grade(
    rollouts: "Rollouts",
    options: GradeOptions,
    files: GradeFiles,
    talk: Talk,
    *,
    retry_ungraded: bool = False,
) -> tuple["Rollouts", int]:
    """Rank the passing candidates; return also how many groups that needed a grade have none."""
    from gagar_cli.engines.stages import grader_of, journal_path, opened_journal, read_rubric
    from gagar_cli.grading.stage import grade
    from gagar_cli.grading.votelog import open_votelog

    with (
        open_votelog(files.transcripts) as log,
        opened_journal(journal_path(options, files)) as journal,
        progress_bar("grading groups", quiet=talk.quiet) as progress,
    ):
        grader = grader_of(options, read_rubric(files), journal, log)

        def tell(done: int, total: int, usage: "Usage") -> None:
            tokens = usage.prompt_tokens + usage.completion_tokens
            cost = f", {usage.cost:.2f} spent" if usage.cost is not None else ""
            progress(done, total, f"{tokens:,} tokens{cost}" if tokens else "")

        result, found = grade(rollouts, grader, options, log, tell, retry_ungraded=retry_ungraded)
    tell_grade(found, options, files, grader.model, talk)
    return result, sum(found.ungraded.values())


def tell_grade(
    found: "GradeSummary", options: GradeOptions, files: GradeFiles, model: str, talk: Talk
) -> None:
    """Say what became of the groups, and what there is to know of the grader."""
    summary(
        "grade",
        _rows(found, options, talk),
        notes=_notes(found, options, files, model),
        as_json=talk.as_json,
        quiet=talk.quiet,
    )


def _rows(found: "GradeSummary", options: GradeOptions, talk: Talk) -> dict[str, Any]:
    usage = found.usage
    cached = usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0
    return {
        "grader": found.grader + ("" if options.url else " (offline; no --grader-url given)"),
        "graded": found.graded,
        "kept_as_graded": found.kept or None,
        "single": found.single,
        "none_passing": found.none_passing,
        "ungraded": sum(found.ungraded.values()),
        "not_ranked": found.rollouts_not_ranked or None,
        "mean_confidence": found.mean_confidence,
        "votes": usage.votes or None,
        "votes_from_journal": usage.votes_from_journal or None,
        "votes_failed": sum(usage.votes_failed.values()) or None,
        "first_shown_wins": _bias_words(found.bias) if found.bias else None,
        "rank_follows": _correlations(found.bias) if found.bias else None,
        "bias": asdict(found.bias) if found.bias and talk.as_json else None,
        "canaries": found.canaries or None,
        "canary_failures": dict(found.canary_failures) if found.canaries else None,
        "requests": usage.requests or None,
        "retries": usage.retries or None,
        "prompt_tokens": usage.prompt_tokens or None,
        "cached_share": cached or None,
        "completion_tokens": usage.completion_tokens or None,
        "cost": usage.cost,
    }


def _bias_words(bias: "Bias") -> str:
    low, high = bias.interval
    return (
        f"{bias.first_wins:.0%} of {bias.votes} votes, by chance {bias.chance:.0%} "
        f"(excess {low:+.0%} to {high:+.0%})"
    )


def _correlations(bias: "Bias") -> str:
    known = {"place shown": bias.place_correlation, "size of patch": bias.size_correlation}
    told = (f"{name} {tau:+.2f}" for name, tau in known.items() if tau is not None)
    return f"{', '.join(told)} (tau-b)"


def _notes(
    found: "GradeSummary", options: GradeOptions, files: GradeFiles, model: str
) -> list[str]:
    from gagar_cli.grading.families import families

    notes = list(found.usage.notes)
    shared = families(model) & families(files.policy_model or "")
    if shared:
        notes.append(
            f"grader and policy are both {' and '.join(sorted(shared))}: models prefer what their "
            "own family writes"
        )
    if options.url and max(options.votes, options.max_votes) == 1 and found.graded:
        notes.append("one vote cannot show doubt: the confidence is 1 wherever it was trusted")
    bias = found.bias
    if bias and bias.biased:
        favoured = "first" if bias.excess > 0 else "later"
        notes.append(f"the grader favours the {favoured}-shown candidate: {_bias_words(bias)}")
    if found.canaries < options.canaries:
        notes.append(f"canaries could be planted in {found.canaries} of {options.canaries} groups")
    for kind, count in found.canary_failures.items():
        notes.append(f"canaries: {kind} stood where it does not belong in {count} groups")
    failed = sum(found.usage.votes_failed.values())
    if failed:
        reason, count = found.usage.votes_failed.most_common(1)[0]
        notes.append(f"{failed} votes gave no ranking, {count} of them: {reason}")
    reasons = found.ungraded.most_common()
    notes += [f"{count} ungraded: {reason}" for reason, count in reasons[:_REASONS]]
    if len(reasons) > _REASONS:
        notes.append(f"and {len(reasons) - _REASONS} more reasons")
    return notes
