from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.delivery import OffsetBook


def test_passed_over_records_move_the_position_but_not_past_the_head() -> None:
    """With 10 unfinished and all up to 500 skipped, 10 is committable."""
    book = OffsetBook(10)
    book.deliver(10, timestamp=1.5)
    book.advance(500)
    assert (book.committable, book.position, book.oldest_timestamp) == (10, 500, 1.5)
    book.finish(10)
    assert (book.committable, book.unfinished, book.oldest_timestamp) == (500, 0, None)


def test_reading_backwards_needs_a_new_book() -> None:
    """An offset below the position is refused."""
    book = OffsetBook(5)
    with pytest.raises(ValueError, match="at least the position 5, got 4"):
        book.deliver(4)


@given(st.data())
def test_agrees_with_the_obvious_model(data: st.DataObject) -> None:
    """The committable offset is the lowest unfinished one, or the position."""
    position = data.draw(st.integers(0, 9))
    book = OffsetBook(position)
    unfinished: list[int] = []
    for _ in range(data.draw(st.integers(0, 60))):
        action = data.draw(st.sampled_from(["deliver", "advance", "finish", "finish_any"]))
        if action == "deliver":
            offset = position + data.draw(st.integers(0, 3))
            book.deliver(offset)
            unfinished.append(offset)
            position = offset + 1
        elif action == "advance":
            target = data.draw(st.integers(0, 200))
            book.advance(target)
            position = max(position, target)
        elif action == "finish" and unfinished:
            offset = data.draw(st.sampled_from(unfinished))
            unfinished.remove(offset)
            assert book.finish(offset)
        else:
            offset = data.draw(st.integers(0, 200))
            known = offset in unfinished
            assert book.finish(offset) is known
            if known:
                unfinished.remove(offset)
        assert book.position == position
        assert book.unfinished == len(unfinished)
        assert book.committable == (min(unfinished) if unfinished else position)
