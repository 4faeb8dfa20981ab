# SPDX-License-Identifier: Apache-2.0
"""Text that others wrote: plain or gzip, in any encoding near UTF-8, with lines that may be bad."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busq.trace import places
from busq.trace.finding import Finding

__all__ = [
    "BadLine",
    "BadLines",
    "beginning",
    "by_host",
    "content",
    "decoded",
    "form",
    "is_binary",
    "printable",
    "stem",
]

_SHOWN_MAX = 3
_WIDTH_MAX = 60
# Among them all ends of lines.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_GZIP = b"\x1f\x8b"


def content(path: str | os.PathLike[str]) -> tuple[bytes, Finding | None]:
    """Return what stands in a file, unpacked if it is gzip, and a finding if the packed data were cut off.

    Of a file that grows meanwhile, these are the whole lines that it had at first: the writer may be faster.
    Errors: OSError.
    """
    with places.opened(os.fspath(path)) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = bytes(file.read(size or -1))  # files that the kernel makes up have no size
        has_grown = bool(size and file.read(1))
    if data.startswith(_GZIP):
        return _unpacked(data, os.fspath(path))
    whole = data.rfind(b"\n") + 1 if has_grown else 0
    return data[:whole] if whole else data, None


def _unpacked(data: bytes, path: str) -> tuple[bytes, Finding | None]:
    try:
        return gzip.decompress(data), None
    except (EOFError, OSError, zlib.error) as error:
        readable = _what_can_be_unpacked(data)
        text = f"{path}: the gzip data are damaged or cut off ({error}): what comes before was read"
        return readable, Finding("truncated", text, path=path)


def _what_can_be_unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    parts = []
    try:
        for begin in range(0, len(data), 1 << 12):
            parts.append(unpacker.decompress(data[begin : begin + (1 << 12)]))
    except zlib.error:
        pass
    return b"".join(parts)


def beginning(path: str | os.PathLike[str], length: int = 1 << 16) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzip; OSError."""
    with places.opened(os.fspath(path)) as file:
        data = bytes(file.read(length))
    if not data.startswith(_GZIP):
        return data
    try:
        return zlib.decompressobj(wbits=31).decompress(data, length)
    except zlib.error:
        return data


def is_binary(data: bytes) -> bool:
    """Return whether these are no lines of text.

    >>> is_binary(b"b 1"), is_binary(bytes(4))
    (False, True)
    """
    return b"\0" in data


_ARROW = "of Arrow: make it Parquet, as with pyarrow.parquet.write_table"
_PACKETS = "a capture of packets: print it as CSV with tshark -T fields"
_ROBOT = "a recording of robots: print its topics as CSV, as with rostopic echo -p"
_FORMS = {
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it with zstd -d",
    b"BZh": "packed by bzip2: unpack it with bzip2 -d",
    b"\xfd7zXZ\0": "packed by xz: unpack it with xz -d",
    b"ARROW1": _ARROW,
    b"\xff\xff\xff\xff": _ARROW,
    b"ORC": "of ORC: make it Parquet, as with pyarrow.parquet.write_table",
    b"Obj\x01": "of Avro: make it Parquet, or a line of JSON for each record",
    b"FEA1": _ARROW,
    b"\x89HDF\r\n": "of HDF5: make it Parquet, as with pandas",
    b"#ROSBAG": _ROBOT,
    b"\x89MCAP": _ROBOT,
    b"SQLite format 3\0": "a database of SQLite: export its tables as CSV",
    b"\xd4\xc3\xb2\xa1": _PACKETS,
    b"\n\r\r\n": _PACKETS,
}
_ZIP = b"PK\x03\x04"  # so begin documents and programs, too
_SHEETS = "a workbook: save its sheets as CSV"
_PACKED = {".zip": "a zip archive: unpack it", ".xlsx": _SHEETS, ".ods": _SHEETS}
_UTF_16 = {
    "UTF-16": re.compile(rb"\xff\xfe(?:[^\0]\0){2}|\xfe\xff(?:\0[^\0]){2}"),
    "UTF-16LE": re.compile(rb"(?:[\t-\r -~]\0){6}"),  # without a mark at its head
    "UTF-16BE": re.compile(rb"(?:\0[\t-\r -~]){6}"),
}
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_WRAPPED = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(\w{1,40})"\s*:\s*\[\s*\{')
_PRETTY = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*\n\s*"')


def form(data: bytes, path: str) -> str:
    """Return in which form the data of a file are that may be a log and is not read, and what helps; "" for others.

    >>> form(b"BZh91AY", "a.bz2"), form(b"ann sent m1", "a.log")
    ('packed by bzip2: unpack it with bzip2 -d', '')
    """
    if _ARRAY.match(data):
        return "one JSON array: make a line of each of its records with jq -c '.[]', or name its format"
    if wrapped := _WRAPPED.match(data):
        return f"one JSON object around an array: make a line of each record with jq -c '.{wrapped[1].decode()}[]'"
    if _PRETTY.match(data):
        return "JSON whose objects take several lines: make a line of each with jq -c ."
    if letters := next((name for name, head in _UTF_16.items() if head.match(data)), ""):
        return f"UTF-16: make it UTF-8 with iconv -f {letters} -t UTF-8"
    if data[257:262] == b"ustar":
        return "an archive of tar: unpack it"
    if data.startswith(_ZIP):
        return _PACKED.get(os.path.splitext(path)[1].lower(), "")
    return next((what for magic, what in _FORMS.items() if data.startswith(magic)), "")


def _told(error: UnicodeError) -> tuple[str, int]:
    """Return bytes that are no text as their numbers, so that names that differ in them stay two."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"\ufffd{byte:02X}" for byte in error.object[error.start : error.end]), error.end


TOLD = "busq.trace"  # how to decode text that may not be in UTF-8
codecs.register_error(TOLD, _told)


def decoded(data: bytes) -> str:
    """Return text, whose lines end in one way; bytes that are no UTF-8 become their numbers behind a mark."""
    text = data.decode("utf-8-sig", errors=TOLD)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def printable(text: str) -> str:
    r"""Return a text in one line, that cannot give orders to a terminal: control characters are escaped.

    >>> print(printable("b\x1b[31m\nc"))
    b\x1b[31m\nc
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def stem(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without the ending of its format.

    >>> stem("logs/a.ndjson.gz")
    'a'
    """
    name = os.path.basename(os.fspath(path))
    name = name[:-3] if name.endswith(".gz") else name
    return os.path.splitext(name)[0] or name


@dataclass(frozen=True)
class BadLine:
    """A line that means nothing; `why` is the reason, if not all of it is wrong.

    `process` is the host that it names as its own, "" for none; None where that can only be guessed from its text.
    """

    line: int
    text: str
    why: str = ""
    process: str | None = None


def by_host(
    path: str, bad: Sequence[BadLine], names: Mapping[str, str], expected: str, cut: int = 0
) -> Iterator[Finding]:
    """Give a finding about bad lines for each host that they belong to, as they name it.

    One that names several hosts may be of any, and so is of none.

    Parameters: `names`, what hosts are called in the log, and by us; `cut`, the last line, if it has no end.
    """
    longest_first = sorted(names, key=len, reverse=True)
    host_in = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first) or "(?!)")
    lines: dict[str, BadLines] = {}
    for each in bad:
        if each.process is None:
            its = {names[name] for name in host_in.findall(each.text)}
            host = its.pop() if len(its) == 1 else ""
        else:
            host = names.get(each.process, "")
        if each.line == cut:
            what = f"{path}:{cut}: the last line, {each.text[:40]!r}, was cut, and left out"
            yield Finding("truncated", what, path=path, line=cut, process=host)
        else:
            lines.setdefault(host, BadLines(path, expected, process=host)).add(each.line, each.text, each.why)
    for mine in lines.values():
        yield from mine.findings()


@dataclass
class BadLines:
    """Counts lines that mean nothing, and keeps the first few."""

    path: str
    expected: str
    count: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)
    process: str = ""

    def add(self, line: int, line_text: str, why: str = "") -> None:
        """Count a line; `why` is the reason, if not all of it is wrong."""
        self.count += 1
        if len(self.shown) < _SHOWN_MAX:
            line_text = line_text if len(line_text) <= _WIDTH_MAX else line_text[: _WIDTH_MAX - 3] + "..."
            self.shown.append((line, f"{line_text!r}" + (f" ({why})" if why else "")))

    def findings(self) -> list[Finding]:
        """Return at most one finding."""
        if not self.count:
            return []
        (line, first), *others = self.shown
        also = "".join(f", line {number}: {text}" for number, text in others)
        text = f"{self.path}:{line}: expected {self.expected}, found {first}{also}"
        return [Finding("bad-line", text, count=self.count, path=self.path, line=line, process=self.process)]
