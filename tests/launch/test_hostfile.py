"""Lists of hosts: every common format, and lines that are rejected."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.hostfile import HostEntry, find, inline, parse, read
from launch.remote.errors import LaunchError
from tests.support.paths import ROOT

pytestmark = pytest.mark.pythons


def host(target: str, slots: int | None = None, port: int | None = None) -> HostEntry:
    return HostEntry(target=target, port=port, slots=slots)


def emit_dmlc(listed: HostEntry) -> str:
    target = listed.target
    if listed.port is not None and ":" in target:
        user, at, address = target.rpartition("@")
        target = f"{user}{at}[{address}]"
    port = "" if listed.port is None else f":{listed.port}"
    return target + port + ("" if listed.slots is None else f" slots={listed.slots}")


def emit_open_mpi(listed: HostEntry) -> str:
    return f"{listed.target}\tslots={listed.slots} max_slots={listed.slots}  # rack 1"


def emit_mpich(listed: HostEntry) -> str:
    return emit_dmlc(host(listed.target, port=listed.slots))


users = st.sampled_from(["", "ubuntu@", "svc_mx.2@"])
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}(\.[a-z0-9-]{0,8}[a-z])?", fullmatch=True)
addresses = st.ip_addresses().map(str) | st.just("fe80::1%eth0")
targets = st.builds(str.__add__, users, names.filter(lambda n: ".-" not in n) | addresses)
slots = st.integers(1, 10_000)
ports = st.none() | st.integers(1, 65535)


def lists(ports: st.SearchStrategy[int | None]) -> st.SearchStrategy[list[HostEntry]]:
    hosts = st.builds(HostEntry, target=targets, port=ports, slots=slots)
    return st.lists(
        hosts, min_size=1, max_size=9, unique_by=lambda h: h.target.rpartition("@")[2].lower()
    )


@given(lists(ports), st.sampled_from(["\n", "\r\n", "\n\n# rack\n\t\n"]), st.booleans())
def test_what_is_written_with_ports_and_slots_is_read_back(
    listed: list[HostEntry], between: str, marked: bool
) -> None:
    text = "\ufeff" * marked + between.join(map(emit_dmlc, listed))
    assert parse(text, "hosts") == tuple(listed)
    assert parse(text, "hosts", "dmlc") == tuple(listed)


@given(lists(st.none()))
def test_what_is_written_for_mpi_is_read_back(listed: list[HostEntry]) -> None:
    assert parse("\n".join(map(emit_open_mpi, listed)), "hosts") == tuple(listed)
    assert parse("\n".join(map(emit_mpich, listed)), "hosts", "mpich") == tuple(listed)
    assert inline(",".join(map(emit_mpich, listed)), "--hosts", "mpich") == tuple(listed)


@given(st.text(max_size=40), st.sampled_from(["", "dmlc", "mpich"]))
def test_any_text_is_hosts_that_no_client_takes_for_an_option_or_one_line(
    text: str, format: str
) -> None:
    found: tuple[HostEntry, ...] = ()
    said = "hosts:"
    try:
        found = parse(text, "hosts", format)
    except LaunchError as error:
        said = str(error)
    assert all(re.fullmatch(r"[A-Za-z0-9_:][\w.@:%-]*", host.target, re.ASCII) for host in found)
    assert said.startswith("hosts:")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "format", "read_as"),
    [
        ("node01", "", host("node01")),
        ("node01.rack-2.example.org", "", host("node01.rack-2.example.org")),
        ("ubuntu@node01  slots=4", "", host("ubuntu@node01", 4)),
        ("node01 slots=4 max_slots=8", "", host("node01", 4)),
        ("node01\tmax-slots=8\tslots=8 # last", "", host("node01", 8)),
        ("node01 max_slots=8", "", host("node01")),
        ("node01:2222", "dmlc", host("node01", port=2222)),
        ("node01:2222 slots=4", "dmlc", host("node01", 4, 2222)),
        ("node01:2222 slots=4", "", host("node01", 4, 2222)),
        ("node01:4", "mpich", host("node01", 4)),
        ("node01 slots=4", "mpich", host("node01", 4)),
        ("192.0.2.1:4", "mpich", host("192.0.2.1", 4)),
        ("192.0.2.1 node01", "", host("192.0.2.1")),
        ("192.0.2.1\tnode01.example.org node01 slots=4", "", host("192.0.2.1", 4)),
        ("2001:db8::1", "", host("2001:db8::1")),
        ("::1 slots=2", "", host("::1", 2)),
        ("2001:db8::1 node01", "", host("2001:db8::1")),
        ("[2001:db8::1] slots=4", "", host("2001:db8::1", 4)),
        ("[2001:db8::1]:2222", "dmlc", host("2001:db8::1", port=2222)),
        ("[2001:db8::1]:4", "mpich", host("2001:db8::1", 4)),
        ("me@[fe80::1%eth0]:2222", "dmlc", host("me@fe80::1%eth0", port=2222)),
        ("cafe:4", "mpich", host("cafe", 4)),
    ],
)
def test_each_format_is_read(line: str, format: str, read_as: HostEntry) -> None:
    assert parse(f"# mine\n{line}\n", "hosts", format) == (read_as,)


HOST = "expected a host such as node01"
COUNT = "expected slots=N or max_slots=N, each once, got"
BOTH = "expected a clear meaning of N, got .* --hosts-format dmlc .* --hosts-format mpich"


@pytest.mark.parametrize(
    ("line", "format", "said"),
    [
        ("node01:22", "", BOTH),
        ("[2001:db8::1]:22", "", BOTH),
        ("-oProxyCommand=x", "", f"{HOST}.*'-oProxyCommand=x'"),
        ("-x@node01", "", HOST),
        ("me@-x", "", HOST),
        ("node01;reboot", "", HOST),
        ("node01,node02", "", HOST),
        ("$(reboot)", "", HOST),
        ("n\u00f6de", "", HOST),
        ("node01\x0bslots=4", "", r"'node01\\x0bslots=4'"),
        ("node01\rnode02", "", r"'node01\\rnode02'"),
        ("node01\u2028slots=4", "", r"\\u2028"),
        ("\x1b[31mnode01", "", r"\\x1b"),
        ("node..1", "", HOST),
        (".node01", "", HOST),
        ("node01:", "dmlc", HOST),
        ("a" * 64, "", HOST),
        (".".join(["a" * 60] * 5), "", HOST),
        ("192.0.2.256", "", HOST),
        ("192.0.2", "", HOST),
        ("16", "", HOST),
        ("2001:db8::1::2", "", HOST),
        ("[node01]:22", "dmlc", HOST),
        ("[2001:db8::1", "dmlc", HOST),
        ("fe80::1%eth0;x", "", HOST),
        ("node01 node02", "", f"{COUNT} 'node02'"),
        ("192.0.2.1 16", "", f"{COUNT} '16'"),
        ("node01 slots=4 slots=4", "", f"{COUNT} 'slots=4'"),
        ("node01 gpus=4", "", f"{COUNT} 'gpus=4'"),
        ("node01 slots=0", "", "expected slots=N from 1 to 10000, got '0'"),
        ("node01 slots=-1", "", "got '-1'"),
        ("node01 slots=10001", "", "got '10001'"),
        ("node01 slots=\u0664", "", "expected slots=N"),
        ("node01 slots", "", "expected slots=N from 1 to 10000, got ''"),
        ("node01 slots=4 max_slots=2", "", "expected max_slots of at least slots=4, got 2"),
        ("node01:0", "dmlc", "expected an SSH port from 1 to 65535, got '0'"),
        ("node01:65536", "dmlc", "got '65536'"),
        ("node01:0", "mpich", "expected devices from 1 to 10000, got '0'"),
        ("node01:x", "mpich", "got 'x'"),
        ("node01:4 slots=4", "mpich", "expected the number of devices once"),
        ("NODE00 slots=1", "", "node00 is already listed in hosts:1"),
        ("me@node00", "", "node00 is already listed in hosts:1"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(line: str, format: str, said: str) -> None:
    with pytest.raises(LaunchError, match=f"^hosts:3: .*{said}"):
        parse(f"node00\n\n{line}\nnode03\n", "hosts", format)


def test_one_address_in_two_spellings_stands_there_twice() -> None:
    with pytest.raises(LaunchError, match=r"^hosts:2: .*already listed in hosts:1"):
        parse("2001:db8::1\n2001:DB8:0::1\n", "hosts")
    assert len(parse("127.0.0.1:2201\n127.0.0.1:2202\n", "hosts", "dmlc")) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected one host per line, as 'HOST', 'HOST slots=N' or 'HOST:N', got none"),
        (b"\xef\xbb\xbf# none\r\n\r\n", "got none"),
        (b"\x7fELF\0\0", "expected UTF-8 text"),
        ("node01\n".encode("utf-16"), "expected UTF-8 text"),
        (b"#" * (1 << 20) + b"\n", "at most 1 MB"),
        (None, "Is a directory"),
    ],
)
def test_what_is_no_hosts_file_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "hosts"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(LaunchError, match=f"^{re.escape(str(path))}: .*{said}"):
        read(path)


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("h1:4,h2:2", (host("h1", 4), host("h2", 2))),
        ("h1, me@h2", (host("h1"), host("me@h2"))),
        ("[2001:db8::1]:4,2001:db8::2", (host("2001:db8::1", 4), host("2001:db8::2"))),
    ],
)
def test_hosts_on_a_command_line_have_counts(text: str, read_as: tuple[HostEntry, ...]) -> None:
    assert inline(text, "--hosts") == read_as


@pytest.mark.parametrize("text", ["", " ", "h1,", ",h1", "h1:4,-x", "h1:4,h1:4", "h1:0", "h1:4:4"])
def test_a_wrong_host_on_a_command_line_is_named(text: str) -> None:
    with pytest.raises(LaunchError, match=r"^--hosts, host [12]: "):
        inline(text, "--hosts")


@pytest.mark.parametrize(
    "text", ["worker0:2222,worker1:2222", "h1:4,h2:22", "me@h1:129", "h1:65535", "h1:99999"]
)
def test_a_port_like_number_on_a_command_line_is_ambiguous(text: str) -> None:
    with pytest.raises(LaunchError, match=rf"^--hosts, host [12]: .*{BOTH}"):
        inline(text, "--hosts")


def test_a_format_says_what_a_number_on_a_command_line_means() -> None:
    text = "worker0:2222,worker1:2222"
    ports = tuple(HostEntry(target=f"worker{n}", port=2222) for n in (0, 1))
    assert find("", text, "dmlc", {}) == ports
    assert find("", text, "mpich", {}) == (host("worker0", 2222), host("worker1", 2222))


def test_the_example_shows_formats_that_are_read() -> None:
    example = ROOT / "hosts.example"
    assert read(example) == tuple(host(f"192.0.2.{n}", 16) for n in range(11, 27))
    shown = re.findall(r"^#   (\S+(?: \S+)*?)  ", example.read_text(), re.MULTILINE)
    assert len(shown) == 8
    for line in shown:
        assert parse(line, "hosts", "dmlc")
