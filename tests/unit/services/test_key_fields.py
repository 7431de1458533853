"""The field of a line that becomes the key, for common log formats."""

import pytest
from headrace.services.key_fields import MAX_KEY_BYTES, NO_KEY, KeyField, choose_key_field

ACCESS = [
    b'10.0.0.%d - - [10/Oct/2000:13:55:%02d -0700] "GET /page/%d HTTP/1.0" 200 %d' % (n % 5, n % 60, n, n * 7)
    for n in range(100)
]
SYSLOG = [
    b"Nov 21 00:%02d:10 host %s hello %d" % (n % 60, b"sshd[%d]:" % n if n % 3 else b"kernel:", n)
    for n in range(100)
]
ISO_SYSLOG = [
    b"2026-11-21T00:%02d:10.12+00:00 host %s hi"
    % (n % 60, b"cron(root)[%d]:" % n if n % 2 else b"systemd[1]:")
    for n in range(100)
]
DPKG = [
    b"2026-05-09 07:29:%02d %s package-%d:amd64 1.%d" % (n % 60, b"status" if n % 4 else b"install", n, n)
    for n in range(100)
]
TABLE = [b'%d,"%s",3.5' % (n, b"alice" if n % 2 else b"bob") for n in range(100)]


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        (ACCESS, {b"10.0.0.%d" % n for n in range(5)}),
        (SYSLOG, {b"sshd", b"kernel"}),
        (ISO_SYSLOG, {b"cron", b"systemd"}),
        (DPKG, {b"status", b"install"}),
        (TABLE, {b"alice", b"bob"}),
    ],
    ids=["access log", "syslog", "syslog with ISO times", "dpkg", "comma separated"],
)
def test_key_field_of_common_log_formats(lines: list[bytes], keys: set[bytes]) -> None:
    """Times, numbers and constants are passed over; process ids do not make a program a new key."""
    chosen = choose_key_field(lines)
    assert {chosen.key_of(line) for line in lines} == keys


@pytest.mark.parametrize(
    "lines",
    [[], [b""], [b"   "], [b"same word"] * 50, [b"\xff\xfe\x00\x01"], [b"unique%d" % n for n in range(100)]],
    ids=["nothing", "empty", "blank", "constant", "binary", "all different"],
)
def test_lines_without_a_good_field_use_the_first(lines: list[bytes]) -> None:
    """Every line has a key field."""
    assert choose_key_field(lines).index == 0


def test_ipv6_addresses_are_no_times() -> None:
    """Both are hex digits and colons."""
    lines = [b"12:30:%02d 2001:db8::%d GET" % (n % 60, n % 3) for n in range(60)]
    assert choose_key_field(lines).index == 1


def test_a_line_without_the_field_has_no_key() -> None:
    """Blank and short lines are records as well."""
    assert KeyField(2).key_of(b"one two") == NO_KEY
    assert KeyField(0).key_of(b"") == NO_KEY
    assert KeyField(1, b",").key_of(b"a,,c") == NO_KEY


def test_key_size_is_bounded() -> None:
    """A line without spaces is not its own key."""
    assert KeyField(0).key_of(b"x" * 10_000) == b"x" * MAX_KEY_BYTES
