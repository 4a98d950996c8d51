"""Works a program through a wheel and the naive wheel, comparing all they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn import DeadlineWheel, TimerTask, TimingWheel
from tests.core.models.naive_wheel import NaiveWheel
from tests.core.models.programs import NAMES, Add, Advance, Cancel, Shape, Step

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_timing_wheel(shape: Shape, steps: Iterable[Step]) -> None:
    """Work the program through a TimingWheel and the model, comparing all they say."""
    wheel = TimingWheel(*shape)
    model = NaiveWheel(shape.tick_ms, shape.start_ms)
    tasks = [TimerTask(name) for name in range(NAMES)]  # its delay serves as its name
    for step in steps:
        match step:
            case Add(name, expiration_ms):
                model.cancel(name)
                if wheel.add(tasks[name], expiration_ms):
                    assert not model.must_be_due(expiration_ms)
                    assert tasks[name].expiration_ms == expiration_ms
                    model.add(name, expiration_ms)
                else:
                    assert model.may_be_due(expiration_ms)
                    assert tasks[name].expiration_ms is None
            case Cancel(name):
                assert tasks[name].cancel() == model.cancel(name)
            case Advance(now_ms):
                due = [task.delay_ms for task in wheel.advance(now_ms)]
                for _, names in model.advance(now_ms):
                    assert set(due[: len(names)]) == names
                    del due[: len(names)]
                assert due == []
        check_next(wheel, model)


def check_deadline_wheel(shape: Shape, steps: Iterable[Step]) -> None:
    """Work the program through a DeadlineWheel and the model, comparing all they say."""
    wheel = DeadlineWheel(*shape)
    model = NaiveWheel(shape.tick_ms, shape.start_ms)
    handles: dict[int, int] = {}
    names: dict[int, int] = {}  # of the handles that wait
    late: set[int] = set()  # handles whose deadline had, or may have, passed when they were put in
    for step in steps:
        match step:
            case Add(name, deadline_ms):
                if name in handles:
                    assert wheel.cancel_many([handles[name]]) == model.cancel(name)
                    names.pop(handles[name], None)
                handle = handles[name] = wheel.add_many([deadline_ms])[0]
                assert handle not in names
                names[handle] = name
                late.discard(handle)
                if model.may_be_due(deadline_ms):
                    late.add(handle)
                model.add(name, deadline_ms)
            case Cancel(name):
                if name in handles:
                    assert wheel.cancel_many([handles[name]]) == model.cancel(name)
                    names.pop(handles[name], None)
            case Advance(now_ms):
                due = list(wheel.advance(now_ms))
                expected = model.advance(now_ms)
                first = sum(handle in late for handle in due)
                assert all(handle in late for handle in due[:first])
                due = [names.pop(handle) for handle in due]
                in_time = set(due[first:])
                assert set(due) == set().union(*(group for _, group in expected))
                for _, group in expected:
                    group &= in_time
                    assert set(due[first : first + len(group)]) == group
                    first += len(group)
                assert first == len(due)
        check_next(wheel, model)


def check_next(wheel: TimingWheel | DeadlineWheel, model: NaiveWheel) -> None:
    assert len(wheel) == len(model)
    next_ms, true_next_ms = wheel.next_expiration_ms, model.next_due_ms()
    assert (next_ms is None) == (true_next_ms is None)
    if next_ms is not None and true_next_ms is not None:
        assert next_ms <= true_next_ms
