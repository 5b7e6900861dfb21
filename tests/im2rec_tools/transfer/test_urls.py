"""URLs: ranges, names that stay in the folder, texts without credentials."""

import pytest

from im2rec_tools.cli import Command
from im2rec_tools.declarations import LIST, PACK, VERIFY
from im2rec_tools.errors import DataError
from im2rec_tools.transfer.urls import parse_urls, safe_name, shown

LOGIN = "https://user:w0rd@host:8443/a/b.rec?X-Amz-Signature=w0rd&sig=w0rd#w0rd"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://h/a.rec", ["http://h/a.rec"]),
        ("s3://b/k gs://b/k", ["s3://b/k", "gs://b/k"]),
        ("http://h/a_{8..10}.rec", ["http://h/a_8.rec", "http://h/a_9.rec", "http://h/a_10.rec"]),
        ("file:///{08..09}/{0..1}", [f"file:///{a}/{b}" for a in ("08", "09") for b in "01"]),
    ],
)
def test_blanks_separate_urls_and_a_range_stands_for_its_numbers(
    text: str, found: list[str]
) -> None:
    assert [one.text for one in parse_urls("URL", text)] == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "a.rec", "ftp://h/a", "http:///a", "http://:80/a", "s3://", "http://h:x/a"),
        *("http://[/a", "file://other/a", "http://h/{3..1}", "http://h/{0..999999}", "http://h/\0"),
    ],
)
def test_what_is_no_url_of_a_file_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"^URL: expected "):
        parse_urls("URL", text)


@pytest.mark.parametrize(
    ("text", "name"),
    [("http://h/a%20b.rec?x=/y", "a b.rec"), ("s3://b/a%20b", "a%20b"), ("file:///x/y", "y")],
)
def test_the_name_is_the_decoded_last_part_of_the_path(text: str, name: str) -> None:
    (url,) = parse_urls("URL", text)
    assert url.name == name
    assert url.sibling("c d").name == "c d"


HIDDEN = (".", ".hidden", "a/.b")
OUTSIDE = ("", "/a", "..", "../a", "a/../b", "a//b", "a/")


@pytest.mark.parametrize(
    "name", [*HIDDEN, *OUTSIDE, "a\nb", "a" * 250, "a\0", "a\x1b[2J", "a\u202eb"]
)
def test_names_that_lead_out_or_hide_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="expected a file name below the folder"):
        safe_name(name, "list:1")


def test_an_encoded_name_cannot_lead_out_either() -> None:
    good, up, hidden = parse_urls("URL", "http://h/..%2f..%2fetc http://h/%2e%2e http://h/a%2f.b")
    assert good.name == "etc"
    for url in (up, hidden):
        with pytest.raises(DataError, match="below the folder"):
            assert url.name


@pytest.mark.parametrize("text", [LOGIN, "s3://key:w0rd@bucket/a?w0rd", "gs://u:w0rd@b"])
def test_a_url_is_shown_without_its_credentials(text: str) -> None:
    assert "w0rd" not in shown(text)
    (url,) = parse_urls("URL", text)
    assert "w0rd" not in f"{url} {url!r}"
    with pytest.raises(DataError) as caught:
        parse_urls("URL", text.replace("://", "x://"))
    assert "w0rd" not in str(caught.value)


@pytest.mark.parametrize("command", [PACK, LIST, VERIFY])
def test_commands_that_need_local_files_name_the_one_that_fetches(command: Command) -> None:
    words = {one.key: "s3://u:w0rd@b/k?w0rd" for one in command.options if one.default is None}
    with pytest.raises(DataError, match="expected a local path, got s3://b/k") as caught:
        command.planned(words)
    assert "fab data.fetch" in str(caught.value)
