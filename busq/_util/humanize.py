# SPDX-License-Identifier: Apache-2.0
"""Numbers and names in words, as texts for people have them; every wing may use them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["amount", "duration", "listed", "percent", "rounded", "short", "size", "size_in_use"]

_LISTED_MAX = 4


def amount(count: int, one: str, many: str = "") -> str:
    """Return a number of things.

    >>> amount(1, "message"), amount(1200, "loss", "losses")
    ('1 message', '1,200 losses')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Return a time.

    >>> [duration(one) for one in (250e-9, 0.0123, 0, 12.34, 600, 8000)]
    ['0.25 us', '12.3 ms', '0 s', '12.3 s', '10 min', '2.2 h']
    """
    if seconds >= 120:
        return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    for limit, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= limit or not seconds:
            return f"{seconds / limit:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def size(count: int) -> str:
    """Return a number of bytes.

    >>> size(512), size(65536), size(3 << 30)
    ('512 B', '64 KiB', '3 GiB')
    """
    for limit, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= limit:
            return f"{count / limit:.3g} {unit}"
    return f"{count} B"


def size_in_use(used: int, arena: int) -> str:
    """Return how much of an arena is in use, and behind it, as words.

    >>> size_in_use(1 << 20, 1 << 24), size_in_use(5 << 30, 2 << 30)
    ('1 MiB of 16 MiB', '5 GiB in and behind an arena of 2 GiB')
    """
    return f"{size(used)} {'of' if used <= arena else 'in and behind an arena of'} {size(arena)}"


def rounded(value: float) -> str:
    """Return a number in three digits, with its unit as a word.

    >>> rounded(950), rounded(1_234_567), rounded(368_707_519), rounded(2.5e9)
    ('950', '1.23 million', '369 million', '2.5 billion')
    """
    for factor, unit in ((1e9, " billion"), (1e6, " million")):
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Return a number in three digits, for narrow columns.

    >>> short(249_553), short(1_876_000), short(42.4)
    ('250k', '1.88M', '42.4')
    """
    for factor, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share.

    >>> percent(0.05), percent(0.001)
    ('5%', '0.1%')
    """
    return f"{100 * share:g}%"


def listed(names: Sequence[str]) -> str:
    """Return names as a list, the first few of many.

    >>> listed([]), listed(["ann"]), listed(["ann", "bob", "cleo"]), listed([str(n) for n in range(9)])
    ('', 'ann', 'ann, bob and cleo', '0, 1, 2, 3 and 5 others')
    """
    shown = list(names)
    if len(names) > _LISTED_MAX + 1:
        shown[_LISTED_MAX:] = [f"{len(names) - _LISTED_MAX} others"]
    return "".join(shown) if len(shown) < 2 else f"{', '.join(shown[:-1])} and {shown[-1]}"
