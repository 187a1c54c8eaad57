import time

import pytest

from gagar_cli.parallel import on_all_cores


def test_results_come_in_the_order_of_the_pieces():
    def later_first(piece):
        time.sleep((9 - piece) / 1000)
        return piece * piece

    assert on_all_cores(later_first, iter(range(10))) == [n * n for n in range(10)]
    assert on_all_cores(later_first, [3]) == [9]
    assert on_all_cores(later_first, []) == []


def test_of_several_errors_the_first_pieces_is_raised():
    def fail(piece):
        time.sleep((9 - piece) / 1000)
        if piece > 3:
            raise ValueError(piece)

    with pytest.raises(ValueError, match="4"):
        on_all_cores(fail, range(10))
