"""Known-hosts files with lines without a key: skipped, as by ssh, and at once."""

import base64
import time
from pathlib import Path

import pytest
from paramiko import ECDSAKey, RSAKey

from launch.transport import host_keys

GOOD = RSAKey.generate(1024)


def packed(*fields: bytes) -> str:
    return base64.b64encode(b"".join(len(one).to_bytes(4, "big") + one for one in fields)).decode()


def names(file: Path, lines: list[str]) -> list[str]:
    good = f"good ssh-rsa {GOOD.get_base64()}"
    file.write_text("\n".join([*lines, good, ""]), encoding="utf-8", errors="surrogateescape")
    return [name for entry in host_keys.read_entries(file) for name in entry.hostnames]


WRONG = {
    "a length of a million": "h ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAA9CQAHm",
    "a key that is cut off": "h ssh-rsa AAAAB3NzaC1yc2E=",
    "no key": "h ssh-rsa",
    "no base64": "h ssh-rsa !!!!",
    "an empty key": "h ssh-rsa ====",
    "a negative modulus": "h ssh-rsa " + packed(b"ssh-rsa", b"\x03", b"\xff" * 128),
    "another type inside": "h ssh-rsa " + packed(b"\xff\xfe", b"\x03", b"\x01" * 128),
    "a point on no curve": "h ecdsa-sha2-nistp256 "
    + packed(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + b"\x01" * 64),
    "a key of 1 MB": "h ssh-rsa " + packed(b"ssh-rsa", b"\x03", b"\x01" * (1 << 20)),
    "an authority": f"@cert-authority * ssh-rsa {GOOD.get_base64()}",
    "bytes that are no text": "h\udcff \udcfe \udcfd",
    "a NUL": "h\0 ssh-rsa \0",
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_a_line_without_a_usable_key_is_passed_over_as_ssh_does(tmp_path: Path, line: str) -> None:
    assert names(tmp_path / "known_hosts", [line]) == ["good"]


def test_a_thousand_hostile_lines_take_no_time(tmp_path: Path) -> None:
    started = time.monotonic()
    assert names(tmp_path / "known_hosts", [WRONG["a length of a million"]] * 1000) == ["good"]
    assert time.monotonic() - started < 60  # one of them took above 90 s


def test_keys_are_read_whatever_blanks_are_between_them(tmp_path: Path) -> None:
    curve = ECDSAKey.generate()
    line = f"a,b\t{curve.get_name()}   {curve.get_base64()} a comment"
    assert names(tmp_path / "known_hosts", ["# a comment", "", line]) == ["a", "b", "good"]


def test_a_hashed_name_of_another_length_is_nobodys(tmp_path: Path) -> None:
    key = f"ssh-rsa {GOOD.get_base64()}"
    (tmp_path / "k").write_text(f"|1|AAAA|AAAA {key}\n|1|x {key}\n|1| {key}\n")
    assert list(host_keys.KeyFile(tmp_path / "k").of("good")) == []
