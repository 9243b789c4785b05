"""`no_grad` and its like hold where they are written: in a thread, a task, a generator, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import numpy as np
import pytest

import wengert as wg
from wengert.core.context import mode

X = wg.tensor(np.ones(2, np.float32), requires_grad=True)


def is_grad():
    return (X * 2).requires_grad


def is_cast():
    return (wg.ones((2, 2)) @ wg.ones((2, 2))).dtype is wg.bfloat16


def is_eager():
    made = X + 1  # held, so that it is still there when it is looked at
    return made.node.buffer is not None


def is_checking():
    try:
        wg.log(wg.tensor([-1.0])).numpy()
    except wg.errors.NaNError:
        return True
    return False


SETTINGS = {
    "no_grad": (wg.no_grad, lambda: not is_grad()),
    "autocast": (wg.autocast, is_cast),
    "eager": (wg.eager, is_eager),
    "debug_nans": (wg.debug_nans, is_checking),
}


@pytest.fixture(params=SETTINGS)
def setting(request):
    return SETTINGS[request.param]


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = mode()
    yield
    assert mode() is before


def test_eager_computes_what_was_pending_before_it_too():
    slot = wg.zeros((2,))
    slot[0] = 1.0  # an assignment, behind which a flush would else end
    with wg.eager():
        assert is_eager()
    assert slot.node.buffer is not None


# --- plain ----------------------------------------------------------------------------------------------------------


def test_a_setting_holds_inside_and_ends_with_its_block(setting):
    set_, holds = setting
    assert not holds()
    with set_():
        assert holds()
        with set_():
            assert holds()
        assert holds()
    assert not holds()
    with pytest.raises(KeyError), set_():
        raise KeyError
    assert not holds()


def test_settings_nest_and_each_changes_only_its_own():
    with wg.no_grad(), wg.autocast():
        assert not is_grad() and is_cast()
        with wg.enable_grad(), wg.autocast(enabled=False):
            assert is_grad() and not is_cast()
        with wg.enable_grad():
            assert is_grad() and is_cast()
        assert not is_grad() and is_cast()
    assert is_grad() and not is_cast()


def test_a_setting_is_a_decorator_also_of_a_function_that_calls_itself(setting):
    set_, holds = setting

    @set_()
    def count(n):
        assert holds()
        return 1 + count(n - 1) if n else 0

    assert count(3) == 3 and not holds()


def test_threads_have_their_own(setting):
    set_, holds = setting
    seen = []
    with set_():
        thread = threading.Thread(target=lambda: seen.append(holds()))
        thread.start()
        thread.join()
    assert seen == [False]


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_tasks_do_not_see_each_other_s(setting):
    set_, holds = setting

    async def inside(turns):
        with set_():
            for _ in range(3):
                turns.append(holds())
                await asyncio.sleep(0)

    async def outside(turns):
        for _ in range(4):
            turns.append(not holds())
            await asyncio.sleep(0)

    async def both():
        turns = []
        await asyncio.gather(inside(turns), outside(turns), inside(turns), outside(turns))
        assert not holds()
        return turns

    turns = asyncio.run(both())
    assert len(turns) == 14 and all(turns)


def test_tasks_and_threads_started_inside_go_along(setting):
    set_, holds = setting

    async def child():
        await asyncio.sleep(0)
        return holds()

    async def parent():
        with set_():
            inherited = await asyncio.gather(child(), asyncio.create_task(child()), asyncio.to_thread(holds))
            awaited = await child()
        return [*inherited, awaited, not holds(), not await child()]

    assert asyncio.run(parent()) == [True] * 6


def test_a_cancelled_task_leaves_nothing(setting):
    set_, holds = setting

    async def waiting():
        with set_():
            await asyncio.sleep(100)

    async def main():
        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        assert not holds()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not holds()

    asyncio.run(main())


# --- generators -----------------------------------------------------------------------------------------------------


def test_a_suspended_generator_keeps_its_setting_to_itself(setting):
    set_, holds = setting

    def values():
        with set_():
            yield holds()
            yield holds()
        yield not holds()

    seen = []
    for value in values():
        seen += [value, not holds()]
    assert seen == [True] * 6


def test_a_generator_that_is_left_in_the_middle_leaves_nothing(setting):
    set_, holds = setting

    def values():
        with set_():
            yield
            yield

    generator = values()
    next(generator)
    assert not holds()
    generator.close()
    assert not holds()
    other = values()
    next(other)
    del other
    assert not holds()


def test_generators_that_take_turns_do_not_disturb_each_other(setting):
    set_, holds = setting

    def inside():
        with set_():
            for _ in range(4):
                yield holds()

    def outside():
        for _ in range(6):
            yield not holds()

    seen = []
    running = [inside(), outside(), inside(), outside()]
    while running:
        for generator in list(running):
            try:
                seen.append(next(generator))
            except StopIteration:
                running.remove(generator)
        assert not holds()
    assert len(seen) == 20 and all(seen)


def test_the_innermost_block_on_the_stack_wins():
    def without():
        with wg.no_grad():
            while True:
                yield is_grad()

    generator = without()
    assert next(generator) is False
    with wg.enable_grad():
        assert is_grad()
        assert next(generator) is False  # its own block is further in
        with wg.autocast():
            assert is_cast() and is_grad() and next(generator) is False
        assert is_grad() and not is_cast()
    with wg.no_grad():
        assert not is_grad()
        generator.close()
        assert not is_grad()
    assert is_grad()


def test_a_caller_s_block_reaches_into_a_generator():
    def plain():
        while True:
            yield is_grad()

    generator = plain()
    assert next(generator) is True
    with wg.no_grad():
        assert next(generator) is False
    assert next(generator) is True


def test_a_block_that_ends_before_a_generator_begun_in_it():
    def values():
        with wg.autocast():
            yield is_cast(), is_grad()
            yield is_cast(), is_grad()

    generator = values()
    with wg.no_grad():
        assert next(generator) == (True, False)
        assert not is_cast() and not is_grad()
    assert not is_cast() and is_grad()
    assert next(generator) == (True, True)
    assert list(generator) == [] and not is_cast() and is_grad()


def test_a_context_manager_of_one_s_own_gives_its_setting_to_its_block(setting):
    set_, holds = setting

    @contextlib.contextmanager
    def own():
        with set_():
            yield

    @contextlib.contextmanager
    def twice():
        with own():
            yield

    def values():
        with twice():
            yield holds()
            yield holds()

    with own():
        assert holds()
    assert not holds()
    with twice():
        assert holds()
    for value in values():
        assert value and not holds()
    assert not holds()


def test_an_exit_stack_gives_settings_to_its_block(setting):
    set_, holds = setting

    def values():
        with contextlib.ExitStack() as stack:
            stack.enter_context(set_())
            yield holds()
            yield holds()

    with contextlib.ExitStack() as stack:
        stack.enter_context(set_())
        assert holds()
    assert not holds()
    for value in values():
        assert value and not holds()


@pytest.fixture
def without_gradients():
    with wg.no_grad():
        yield


def test_a_fixture_gives_its_setting_to_the_test(without_gradients):
    assert not is_grad()


def test_an_asynchronous_generator_keeps_its_setting_to_itself(setting):
    set_, holds = setting

    async def values():
        with set_():
            yield holds()
            await asyncio.sleep(0)
            yield holds()

    @contextlib.asynccontextmanager
    async def own():
        with set_():
            yield

    async def main():
        async for value in values():
            assert value and not holds()
        async with own():
            assert holds()
            await asyncio.sleep(0)
            assert holds()
        assert not holds()

    asyncio.run(main())


# --- what depends on it ---------------------------------------------------------------------------------------------


def test_compiled_functions_are_called_in_the_mode_of_the_caller():
    f = wg.compile(lambda x: x * 3)

    def values():
        with wg.no_grad():
            for _ in range(3):
                yield f(X).requires_grad

    for value in values():
        assert value is False and f(X).requires_grad


def test_derivatives_inside_a_generator_are_as_outside():
    def gradients():
        with wg.no_grad():
            yield wg.grad(lambda x: (x * x).sum())(X).tolist()
            with wg.enable_grad():
                y = (X * X).sum()
            yield wg.vmap(lambda x: x * 2)(X).requires_grad
            yield y.requires_grad

    assert list(gradients()) == [[2.0, 2.0], False, True]
