"""Redistribution against the formula in exact fractions, over random sets of groups."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli import groups
from gagar_cli.errors import DataError
from gagar_cli.groups import GroupIndex
from gagar_cli.options import Mass, RedistributeOptions
from gagar_cli.redistribution import redistribute

NAN = float("nan")
PROMISE = Fraction(1, 10**12)
SMALLEST = 1e-290  # a smaller advantage counts as zero and is not touched


@dataclass(frozen=True)
class Case:
    """Columns of N rows, and how their credit is to move."""

    ids: tuple
    passed: np.ndarray
    advantage: np.ndarray
    rank: np.ndarray
    confidence: np.ndarray | None
    tokens: np.ndarray
    options: RedistributeOptions

    def run(self):
        return redistribute(
            self.advantage,
            GroupIndex.of(pa.array(self.ids, pa.string())),
            self.passed,
            self.rank,
            self.confidence,
            self.tokens,
            self.options,
        )

    def taking(self, rows):
        """Return the case with only these rows, in this order."""
        rows = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows),
            passed=self.passed[rows],
            advantage=self.advantage[rows],
            rank=self.rank[rows],
            confidence=None if self.confidence is None else self.confidence[rows],
            tokens=self.tokens[rows],
        )

    def groups(self):
        """Return the rows of each group."""
        found = {}
        for row, group in enumerate(self.ids):
            found.setdefault(group, []).append(row)
        return list(found.values())

    def ranked(self, rows):
        """Return those of the rows whose credit may move."""
        return [
            r
            for r in rows
            if self.passed[r] and self.rank[r] >= 1 and self.advantage[r] >= SMALLEST
        ]

    def mass(self, row):
        return Fraction(self.tokens[row]) if self.options.mass is Mass.TOKENS else Fraction(1)


def exact_place_weight(place, size, options):
    """Return what a place weighs, place 0 being the best of `size`."""
    floor = Fraction(options.floor)
    if options.weights == "linear":
        return 1 - (1 - floor) * Fraction(place, size - 1) if place else Fraction(1)
    if options.weights == "geometric":
        return max(Fraction(options.ratio) ** place, floor)
    if options.weights == "bottom-fraction":
        lowered = int(Fraction(str(options.fraction)) * size)
        return floor if place and place >= size - lowered else Fraction(1)
    listed = [Fraction(float(word)) for word in options.weights.split(",")]
    return listed[min(place, len(listed) - 1)]


def exact_weights(case, rows):
    """Return {row: w} for one group, before its sum is restored."""
    members = sorted(case.ranked(rows), key=lambda row: case.rank[row])
    weight, place = {}, 0
    for _, tied in groupby(members, key=lambda row: case.rank[row]):
        tier = list(tied)
        places = range(place, place + len(tier))
        mean = sum(exact_place_weight(p, len(members), case.options) for p in places) / len(tier)
        weight.update(dict.fromkeys(tier, mean))
        place += len(tier)
    confidence = Fraction(1)
    if members and case.confidence is not None and case.options.use_confidence:
        given_one = case.confidence[members[0]]
        confidence = Fraction(1) if np.isnan(given_one) else Fraction(given_one)
    return {row: 1 - confidence * (1 - w) for row, w in weight.items()}


def exact_credit(case, rows):
    """Return {row: A'/A} for one group, by the formula."""
    weight = exact_weights(case, rows)
    if not case.options.keep_sum:
        return weight
    term = {row: Fraction(case.advantage[row]) * case.mass(row) for row in weight}
    weighted = sum(weight[row] * term[row] for row in weight)
    if not weighted:  # nobody has mass, so nothing can move
        return dict.fromkeys(weight, Fraction(1))
    factor = sum(term.values()) / weighted
    return {row: w * factor for row, w in weight.items()}


def ladders(name, **values):
    named = {"weights": st.just(name), "floor": st.floats(1e-7, 1)}
    return st.fixed_dictionaries({**named, **values})


LADDERS = st.one_of(
    ladders("linear"),
    ladders("geometric", ratio=st.floats(0.01, 1)),
    ladders("bottom-fraction", fraction=st.sampled_from([0.0, 0.1, 0.29, 0.5, 0.58, 0.7, 1.0])),
    st.lists(st.floats(1e-7, 1), max_size=5).map(
        lambda tail: {"weights": ",".join(map(repr, [1.0, *sorted(tail, reverse=True)]))}
    ),
)
ADVANTAGES = st.one_of(
    st.sampled_from([NAN, -1.5, -0.0, 0.0, 0.7, 0.7, 1e300, SMALLEST, 1e-300, 5e-324]),
    st.floats(1e-3, 10),
    st.floats(0.125, 4, width=32),
    st.floats(SMALLEST, 1e300),
)
ROWS = st.tuples(
    st.sampled_from([True, True, True, True, False]),
    ADVANTAGES,
    st.sampled_from([1.0, 1.0, 2.0, 2.0, 3.0, 5.0, NAN]),
    st.sampled_from([0, 1, 1000]) | st.integers(0, 10**6),
)
CONFIDENCES = st.sampled_from([NAN, 0.0, 1.0]) | st.floats(0, 1)


@st.composite
def cases(draw, keep_sum=True):  # noqa: FBT002
    options = RedistributeOptions(
        **draw(LADDERS),
        keep_sum=keep_sum,
        mass=draw(st.sampled_from(Mass)),
        use_confidence=draw(st.sampled_from([True, True, False])),
    )
    rows = []
    for group in range(draw(st.integers(1, 4))):
        confidence = draw(CONFIDENCES)
        members = draw(st.lists(ROWS, min_size=1, max_size=8))
        rows += [(f"group {group}", confidence, *member) for member in members]
    ids, confidence, passed, advantage, rank, tokens = zip(
        *draw(st.permutations(rows)), strict=True
    )
    return Case(
        ids,
        np.array(passed),
        np.array(advantage),
        np.array(rank),
        np.array(confidence) if draw(st.booleans()) else None,
        np.array(tokens, dtype=np.float64),
        options,
    )


def assert_follows_the_formula(case):
    result = case.run()
    for rows in case.groups():
        for row, credit in exact_credit(case, rows).items():
            assert abs(Fraction(result.credit_weight[row]) - credit) <= PROMISE * credit
            wanted = credit * Fraction(case.advantage[row])
            assert abs(Fraction(result.advantage[row]) - wanted) <= PROMISE * wanted


def assert_keeps_every_sum(case):
    result = case.run()
    for rows in case.groups():
        positive = [
            r for r in rows if case.passed[r] and case.rank[r] >= 1 and case.advantage[r] > 0
        ]
        before = sum(Fraction(case.advantage[r]) * case.mass(r) for r in positive)
        after = sum(Fraction(result.advantage[r]) * case.mass(r) for r in positive)
        assert abs(after - before) <= PROMISE * before
    assert result.sum_error <= PROMISE


def bits(result):
    """Return each row's result as bytes."""
    pair = np.stack([result.credit_weight, result.advantage], axis=1)
    return [row.tobytes() for row in pair]


@given(cases())
def test_every_groups_sum_is_kept(case):
    assert_keeps_every_sum(case)


@given(cases())
def test_credit_follows_the_formula(case):
    assert_follows_the_formula(case)


@given(cases(keep_sum=False))
def test_without_keeping_the_sum_credit_is_the_weight_itself(case):
    assert_follows_the_formula(case)


@given(cases())
def test_rows_that_are_not_ranked_stay_bit_for_bit(case):
    result = case.run()
    ranked = {row for rows in case.groups() for row in case.ranked(rows)}
    assert set(np.flatnonzero(result.ranked)) == ranked
    for row in set(range(len(case.ids))) - ranked:
        assert result.advantage[row].tobytes() == case.advantage[row].tobytes()
        missing = np.isnan(case.advantage[row])
        assert np.isnan(result.credit_weight[row]) if missing else result.credit_weight[row] == 1


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_groups_change_no_bit(case, random):
    order = list(range(len(case.ids)))
    random.shuffle(order)
    names = sorted(set(case.ids))
    renamed = dict(zip(names, random.sample(["z", "a", "group 1", "ü"], len(names)), strict=True))
    moved = case.taking(order)
    moved = replace(moved, ids=tuple(renamed[name] for name in moved.ids))
    expected = bits(case.run())
    assert bits(moved.run()) == [expected[row] for row in order]


@given(cases())
def test_a_group_alone_gets_the_bits_that_it_gets_in_company(case):
    together = bits(case.run())
    for rows in case.groups():
        assert bits(case.taking(rows).run()) == [together[row] for row in rows]


@given(st.booleans().flatmap(cases))
def test_a_better_rank_never_gets_less_and_ties_get_the_same_bits(case):
    credit = case.run().credit_weight
    for rows in case.groups():
        best_first = sorted(case.ranked(rows), key=lambda row: case.rank[row])
        for better, worse in pairwise(best_first):
            if case.rank[better] == case.rank[worse]:
                assert credit[better].tobytes() == credit[worse].tobytes()
            else:
                assert credit[better] >= credit[worse]


@given(st.booleans().flatmap(cases))
def test_every_positive_advantage_stays_positive_and_finite(case):
    after = case.run().advantage[case.advantage > 0]
    assert (after > 0).all()
    assert np.isfinite(after).all()


@given(cases())
def test_nothing_moves_where_all_are_tied(case):
    tied = replace(case, rank=np.where(np.isnan(case.rank), NAN, 2.0))
    assert set(tied.run().credit_weight[~np.isnan(case.advantage)]) <= {1.0}


@given(cases())
def test_nothing_moves_where_the_confidence_is_0(case):
    options = replace(case.options, use_confidence=True)
    unsure = replace(case, confidence=np.zeros(len(case.ids)), options=options)
    assert set(unsure.run().credit_weight[~np.isnan(case.advantage)]) <= {1.0}


@given(cases())
def test_nothing_moves_where_one_rollout_is_ranked(case):
    alone = [row for rows in case.groups() for row in case.ranked(rows)[:1]]
    rank = np.full(len(case.ids), NAN)
    rank[alone] = case.rank[alone]
    result = replace(case, rank=rank).run()
    assert set(result.credit_weight[~np.isnan(case.advantage)]) <= {1.0}
    assert result.ranked.sum() == len(alone)


def long_case(*sizes, **options):
    """Return groups of these sizes, rows interleaved, with many equal ranks and advantages."""
    random = np.random.default_rng(7)
    ids = random.permutation(np.repeat([f"g{n}" for n in range(len(sizes))], sizes))
    count = len(ids)
    return Case(
        tuple(ids.tolist()),
        random.random(count) < 0.9,
        np.where(random.random(count) < 0.5, 0.7, np.exp(random.normal(size=count, scale=3))),
        random.integers(1, 400, count).astype(np.float64),
        None,
        random.integers(0, 10**6, count).astype(np.float64),
        RedistributeOptions(**options),
    )


@pytest.mark.parametrize("mass", Mass)
@pytest.mark.parametrize("weights", ["linear", "geometric", "1,0.9,0.001"])
def test_groups_over_a_thousand_rollouts_keep_their_sum_and_order_changes_no_bit(mass, weights):
    case = long_case(1300, 3, 900, weights=weights, floor=0.01, mass=mass)
    assert_keeps_every_sum(case)
    expected = bits(case.run())
    order = np.random.default_rng(1).permutation(len(case.ids))
    assert bits(case.taking(order).run()) == [expected[row] for row in order]


def test_a_group_over_a_thousand_rollouts_follows_the_formula():
    assert_follows_the_formula(long_case(1300, floor=0.01))


def one_group(advantage, rank, **columns):
    """Return the credit of one group in which all pass."""
    count = len(advantage)
    case = Case(
        ("g",) * count,
        np.ones(count, dtype=bool),
        np.array(advantage, dtype=np.float64),
        np.array(rank, dtype=np.float64),
        np.array(columns["confidence"]) if "confidence" in columns else None,
        np.array(columns.get("tokens", [1] * count), dtype=np.float64),
        columns.get("options", RedistributeOptions()),
    )
    assert_keeps_every_sum(case)
    return case.run().credit_weight.tolist()


def test_two_places_by_hand():
    # 1 and 0.5, rescaled by 2 / 1.5.
    assert one_group([1, 1], [1, 2]) == pytest.approx([4 / 3, 2 / 3], rel=1e-15)


def test_tied_rollouts_share_the_mean_weight():
    # Places weigh 1, 0.75, 0.5; the tie takes 0.875 twice; rescaled by 3 / 2.25.
    assert one_group([1, 1, 1], [1, 1, 3]) == pytest.approx([7 / 6, 7 / 6, 2 / 3], rel=1e-15)


def test_places_are_counted_among_the_ranked_so_gaps_in_ranks_do_not_matter():
    assert one_group([1, 1, 1], [2, 5, NAN]) == [*one_group([1, 1], [1, 2]), 1]


def test_half_the_confidence_moves_weights_half_as_far():
    # 1 and 0.75, rescaled by 2 / 1.75.
    assert one_group([1, 1], [1, 2], confidence=[0.5, 0.5]) == pytest.approx([8 / 7, 6 / 7])


def test_larger_advantages_lend_more():
    # Sum 4; weighted 1 x 1 + 0.5 x 3 = 2.5.
    assert one_group([1, 3], [1, 2]) == pytest.approx([1.6, 0.8], rel=1e-15)


TOKENS = RedistributeOptions(mass=Mass.TOKENS)


def test_nothing_moves_where_no_ranked_rollout_has_tokens():
    assert one_group([1, 2], [1, 2], tokens=[0, 0], options=TOKENS) == [1, 1]


def test_a_huge_advantage_without_tokens_costs_the_others_no_bits():
    huge = one_group([1e300, 1e-20, 1e-22], [1, 2, 3], tokens=[0, 10, 30], options=TOKENS)
    usual = one_group([1e-20, 1e-20, 1e-22], [1, 2, 3], tokens=[0, 10, 30], options=TOKENS)
    assert huge == usual


def test_the_lowest_weight_that_options_allow_keeps_the_sum():
    lowest = RedistributeOptions(weights="1,1e-9")
    assert one_group([1e-3, 1e300], [1, 2], options=lowest)[1] == 1
    assert one_group([1, 1], [1, 2], options=lowest)[1] == pytest.approx(2e-9, rel=1e-8)


def test_no_rows_give_no_rows():
    assert one_group([], []) == []


def test_infinite_tokens_are_no_count():
    with pytest.raises(DataError, match=r"group 'g': .*num_tokens"):
        one_group([1, 1], [1, 2], tokens=[1, float("inf")], options=TOKENS)


def test_tokens_are_needed_only_as_mass():
    index = GroupIndex.of(pa.array(["g", "g"]))
    columns = (np.ones(2), index, np.ones(2, dtype=bool), np.array([1.0, 2.0]))
    assert redistribute(*columns).credit_weight.tolist() == one_group([1, 1], [1, 2])
    with pytest.raises(DataError, match="no num_tokens"):
        redistribute(*columns, options=TOKENS)


@given(cases())
def test_blocks_of_few_rows_change_no_bit(case):
    expected = bits(case.run())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "BLOCK", 2)
        assert bits(case.run()) == expected
