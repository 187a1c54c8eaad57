"""Rankings for tests, written short and drawn by Hypothesis."""

from hypothesis import strategies as st

from gagar_cli.ranking import Ranking, tiers_of


def ranking(text):
    """Read `A=B>C`."""
    return Ranking(tuple(tuple(tier.split("=")) for tier in text.split(">")))


def rankings(names):
    """Draw any ranking of these labels, ties included."""
    places = st.lists(st.integers(1, len(names)), min_size=len(names), max_size=len(names))
    return places.map(lambda drawn: tiers_of(dict(zip(names, drawn, strict=True))))


@st.composite
def polls(draw, least=2, most=6, votes=5):
    """Draw some votes over the same labels, so many labels."""
    names = tuple("ABCDEFGHIJKLMNO")[: draw(st.integers(least, most))]
    return draw(st.lists(rankings(names), min_size=1, max_size=votes))
