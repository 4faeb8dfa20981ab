# SPDX-License-Identifier: Apache-2.0
"""Which method of a class is a command, and under which name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import busq
from busq.replica import Dict


def adder(number: int) -> Callable[[Any], int]:
    def add(self: Any) -> int:
        self.total += number
        return int(self.total)

    return add


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function, and keep nothing of its name."""

    def inner(self: Any, *args: Any) -> Any:
        return function(self, *args)

    return inner


class Sum(busq.Replica):
    def __init__(self) -> None:
        self.total = 0

    add = busq.command(adder(1))
    add_ten = busq.command(adder(10))
    plus = add

    @busq.command
    @bare
    def subtract(self, number: int) -> int:
        self.total -= number
        return self.total

    @busq.command
    def __double(self) -> int:
        self.total *= 2
        return self.total

    def double(self) -> int:
        return self.__double()


def test_the_name_of_the_attribute_is_the_name_of_the_command(bus: busq.Bus) -> None:
    plain = Sum()
    with Sum.join(bus, "s") as here, Sum.join(bus, "s") as there:
        for sum_ in (plain, here):
            found = [sum_.add_ten(), sum_.add(), sum_.subtract(3), sum_.plus(), sum_.double()]
            assert found == [10, 11, 8, 9, 18]
        with here.batch() as batch:
            batch.add_ten()
            batch.plus()
        there.sync()
        assert (batch.results, there.total) == ([28, 29], 29)


class Loud(Dict):
    put_quietly = Dict.set

    @busq.command
    def set(self, key: Any, value: Any) -> None:
        self.data[key] = str(value).upper()

    def whisper(self, key: Any, value: Any) -> None:
        super().set(key, value)


def test_a_command_that_was_overridden_is_itself_under_another_name(bus: busq.Bus) -> None:
    plain = Loud()
    with Loud.join(bus, "l") as here, Loud.join(bus, "l") as there:
        for loud in (plain, here):
            loud.put_quietly("a", "x")
            loud.whisper("b", "y")
            loud["c"] = "z"
        with here.batch() as batch:
            batch.put_quietly("d", "x")
            batch.set("e", "y")
        there.sync()
        assert plain.copy() == {"a": "x", "b": "y", "c": "Z"}
        assert there.copy() == plain.copy() | {"d": "x", "e": "Y"}


def refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        make()


def test_what_stands_in_the_place_of_a_command_is_a_command(bus: busq.Bus) -> None:
    def plain(self: Any, key: Any, value: Any) -> None:
        self.data[key] = value

    mixin = type("Mixin", (), {"set": plain})
    for make in (
        lambda: type("Book", (Dict,), {"set": plain}),
        lambda: type("Book", (Dict,), {"set": None}),
        lambda: type("Book", (Dict,), {"set": bare(Dict.set)}),
        lambda: type("Book", (mixin, Dict), {}),
    ):
        refused(make, r"Book\.set stands in the place of a command, and is none")
    with type("Book", (mixin, Dict), {"set": busq.command(plain)}).join(bus, "d") as book:  # type: ignore[attr-defined]
        book.set("a", 1)
        assert book.copy() == {"a": 1}


@pytest.mark.parametrize("decorator", [bare, staticmethod, classmethod, property])
def test_a_decorator_above_a_command_that_hides_it_is_refused(decorator: Any) -> None:
    def make() -> None:
        class Book(busq.Replica):
            @decorator
            @busq.command
            def set(self) -> None:
                pass

    refused(make, r"Book\.set is what a decorator made of a command, and is none: write @busq.command above")


def test_a_command_that_the_class_has_got_later_is_refused_at_its_call(bus: busq.Bus) -> None:
    class Late(Dict):
        pass

    Late.late = busq.command(lambda self: self.data.clear())  # type: ignore[attr-defined]
    with Late.join(bus, "d") as late:
        with pytest.raises(TypeError, match="is no command of this replica"):
            late.late()  # type: ignore[attr-defined]
        late["a"] = 1
