"""mxscale reads SSH configurations as ssh does: compared with `ssh -G`."""

import getpass
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from launch.remote.errors import LaunchError
from launch.transport.ssh_config import read

SINGLE = ("hostname", "user", "port", "proxyjump", "proxycommand", "stricthostkeychecking")
HOSTS = ("a", "b", "c.example.org", "192.0.2.7", "A")

# The first is the file that is read; the others can be included.
# fmt: off
TABLE: dict[str, tuple[str, ...]] = {
    "options after an Include belong to the block before it": (
        "Host a\n Include {1}\n Port 2201\n User late\n\nHost *\n Port 22\n",
        "Host b\n User other\n",
    ),
    "options after an Include outside of blocks are of all hosts": (
        "Include {1}\nUser everyone\nPort 2202\n",
        "Host b\n Port 2203\n",
    ),
    "the lines of an included file that are in no block": (
        "Host b\n Include {1}\n User me\n",
        "Port 2204\nHost a\n Port 2205\nHost *\n User star\n",
    ),
    "an Include in a block that does not match": (
        "Host nobody\n Include {1}\nHost *\n Port 23\n",
        "Host *\n Port 2206\nMatch all\n User m\n",
    ),
    "Include within Include": (
        "Host a\n Include {1}\n Port 1\nHost b\n Port 2\n",
        "Host a b\n Include {2}\n User u1\nHost b\n User u2\nHost *\n HostName h.%h\n",
        "Host c*\n User deep\nMatch all\n Port 2207\n",
    ),
    "the same file included twice": (
        "Host a\n Include {1}\nHost b\n Include {1}\n Port 4\n",
        "User twice\nHost a\n Port 5\n",
    ),
    "several files in one Include, and some that are not there": (
        "Include /nowhere/x {1} {2} none.conf\nHost *\n Port 6\n",
        "Host a\n User one\n",
        "Host a b\n User two\n Port 7\n",
    ),
    "Include in quotes, with = and a comment": ('Include = "{1}" # why\nUser x\n', "Port 8\n"),
    "a Match after an Include": (
        "Match host a\n Include {1}\n User in\nMatch host b,c*\n User out\n",
        "Match originalhost a user {me}\n Port 9\nHost b\n Port 10\n",
    ),
    "Match host sees HostName": (
        "Host a\n HostName b\nMatch host b\n Port 11\nMatch originalhost a\n User orig\n",
    ),
    "Match host compares without case": ("Match host A\n Port 12\nHost A\n User big\n",),
    "Match user sees User": (
        "Host a\n User eve\nMatch user eve\n Port 13\nMatch localuser {me}\n User l\n",
    ),
    "Match with negations": ("Match !host a !user nobody\n Port 14\nMatch all\n Port 15\n",),
    "Match final is asked last": (
        "Match final host *.net\n Port 16\nHost a\n HostName a.net\nMatch final\n User f\n",
    ),
    "Match final after a value": ("Port 17\nMatch final\n Port 18\n User z\n",),
    "Match final finds the name that was found": (
        "Match final\n HostName late\nHost a\n HostName %h.net\nHost a.net\n Port 33\n User n\n",
    ),
    "Match canonical all": ("Match canonical all\n Port 19\nMatch final all\n User q\n",),
    "Match exec": ("Match exec true\n Port 20\nMatch exec \"test %h = b\"\n User exec\n",),
    "Match exec is asked only if all before it hold": (
        "Match host b exec \"exit 1\"\n Port 20\nMatch !exec false host a\n User e\n",
    ),
    "negated patterns": (
        "Host *.org !c* b\n User neg\nHost !a *\n Port 24\nHost !a\n User none\n",
    ),
    "question marks and brackets": ("Host ?\n Port 25\nHost [a] 192.0.2.?\n User br\n",),
    "keywords in any case, equal signs, tabs": (
        "hOsT\ta\n\tPORT=26\n  user =  me\n HostName= x\n",
    ),
    "quotes": ('Host "a" \'b\'\n User "quo ted"\n IdentityFile "~/my keys/%h"\n',),
    "backslashes": ('Host a\n User x\\"y\n IdentityFile ~/a\\ b\n IdentityFile "c\\d"\n',),
    "comments behind values": ("Host a # b\n Port 27 # no\n User u#1\n",),
    "the first value counts": ("Host a\n Port 28\n Port 29\nHost *\n Port 30\n User s\n",),
    "identity files add up, each once": (
        "Host a\n IdentityFile one\nHost *\n IdentityFile two\n IdentityFile one\n",
    ),
    "tokens": (
        "Host a b\n HostName %h.x%%y\n Port 31\n User t\n IdentityFile %d/.k/%r@%h:%p-%n-%u-%i\n"
        " ProxyCommand nc -x %r %h %p\n UserKnownHostsFile ~/k/%n %d/%h\n",
    ),
    "known hosts in quotes": (
        'Host a\n UserKnownHostsFile "/x y/known hosts" ~/k2\n GlobalKnownHostsFile /g1 "/g 2"\n',
    ),
    "a jump before a command": ("Host a\n ProxyJump j1,j2:22\nHost *\n ProxyCommand nc %h %p\n",),
    "a command before a jump": ("Host a\n ProxyCommand nc %h %p\nHost *\n ProxyJump j\n",),
    "no jump before a command": ("Host a\n ProxyJump none\nHost *\n ProxyCommand nc %h %p\n",),
    "no jump before a command and a jump": (
        "Host a\n ProxyJump none\nHost *\n ProxyCommand nc %h %p\n ProxyJump gate\n",
    ),
    "a jump as an address": ("Host a\n ProxyJump ssh://me@gate:2222\n",),
    "Match canonical of a name that stays": (
        "CanonicalizeHostname yes\nMatch canonical\n Port 34\nMatch final\n User f\n",
    ),
    "a port by its name": ("Host a\n Port ssh\nHost *\n Port 07\n",),
    "no jump": ("Host a\n ProxyJump none\nHost *\n ProxyJump gate\n",),
    "no command": ("Host a\n ProxyCommand none\nHost *\n ProxyCommand nc %h %p\n",),
    "carriage returns": ("Host a\r\n Port 32\r\n User cr\r\n",),
    "strict keys": (
        "Host a\n StrictHostKeyChecking accept-new\nHost *\n StrictHostKeyChecking no\n",
    ),
}
# fmt: on


def written(folder: Path, texts: tuple[str, ...]) -> Path:
    paths = [folder / f"config{n}" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        for n, other in enumerate(paths):
            text = text.replace(f"{{{n}}}", str(other))  # noqa: PLW2901
        path.write_text(text.replace("{me}", getpass.getuser()), newline="")
    return paths[0]


def of_ssh(config: Path, host: str) -> dict[str, list[str]]:
    done = subprocess.run(
        ["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(value)
    return found


def check(config: Path, host: str) -> None:
    """Raise AssertionError unless mxscale reads for a host what ssh reads."""
    theirs, ours = of_ssh(config, host), read(str(config)).lookup(host)
    user, port, name = (theirs[key][0] for key in ("user", "port", "hostname"))
    defaults = {"hostname": host, "user": getpass.getuser(), "port": "22"}
    defaults |= {"stricthostkeychecking": "ask"}
    for key in SINGLE:
        # What ssh prints may still have tokens in it, and its own words for yes and no.
        expected = theirs.get(key, [""])[0].replace("%h", name).replace("%p", port)
        expected = {"true": "yes", "false": "no"}.get(expected, expected).replace("%r", user)
        assert ours.get(key, defaults.get(key, "")) == ("" if expected == "none" else expected), key
    home, me = str(Path.home()), getpass.getuser()
    tokens = {"%d": home, "%h": name, "%r": user, "%p": port, "%n": host, "%u": me, "%i": "0"}
    keys = theirs["identityfile"]
    for token, value in tokens.items():
        keys = [one.replace(token, value) for one in keys]
    keys = [one.replace("~", home, 1) if one.startswith("~") else one for one in keys]
    assert ours.get("identityfile", keys) == keys
    for key in ("userknownhostsfile", "globalknownhostsfile"):
        expected = theirs[key][0].replace("~", home)
        assert " ".join(ours.get(key, [expected])) == expected, key


@pytest.mark.parametrize("name", TABLE)
def test_options_are_what_ssh_says(tmp_path: Path, name: str) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs ssh: apt-get install openssh-client")
    config = written(tmp_path, TABLE[name])
    for host in HOSTS:
        check(config, host)


def test_a_user_and_a_port_given_with_the_host_count_as_they_do_for_ssh(tmp_path: Path) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs ssh: apt-get install openssh-client")
    config = tmp_path / "config"
    config.write_text(
        f"Match user eve\n UserKnownHostsFile {tmp_path}/eve\nHost *\n User bob\n Port 41\n"
        " HostName %h.net\n IdentityFile ~/k/%r@%h\n ProxyCommand nc %r %p\n"
    )
    words = ["ssh", "-G", "-F", str(config), "-p", "42", "eve@a"]
    theirs = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    ours = read(str(config)).given("eve", 42).lookup("a")
    for name in ("user", "port", "hostname"):
        assert f"{name} {ours[name]}\n" in theirs
    assert f"userknownhostsfile {ours['userknownhostsfile'][0]}\n" in theirs
    assert ours["identityfile"] == [str(Path.home() / "k/eve@a.net")]
    assert ours["proxycommand"] == "nc eve 42"


@pytest.mark.parametrize("seed", range(30))
def test_options_of_random_configurations_are_what_ssh_says(tmp_path: Path, seed: int) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs ssh: apt-get install openssh-client")
    chance = random.Random(seed)
    blocks: tuple[str, ...] = (
        "Host a",
        "Host b a",
        "Host *",
        "Host !a *",
        "Host ?",
        "Match all",
        "Match host b",
    )
    blocks += ("Match originalhost a,b", "Match user eve", "Match !host a", "Match final")
    values: tuple[str, ...] = (
        "Port {n}",
        "User u{n}",
        "User eve",
        "HostName b",
        "HostName %h{n}",
        "ProxyJump j{n}",
    )
    values += ("ProxyJump none", "ProxyCommand none")
    values += ("IdentityFile k{n}", "ProxyCommand c {n} %h", "UserKnownHostsFile /k{n} ~/l")

    def lines(deeper: list[int]) -> str:
        kinds = [*blocks, *values, *values, *[f"Include {{{n}}}" for n in deeper] * 4]
        chosen = [chance.choice(kinds) for _ in range(12)]
        return "".join(f"{one.replace('{n}', str(chance.randint(1, 99)))}\n" for one in chosen)

    config = written(tmp_path, (lines([1, 2, 3]), lines([2, 3]), lines([3]), lines([])))
    for host in ("a", "b"):
        check(config, host)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('Host "a\n', 'config0:1: expected a closing ", got none'),
        ("Host a\n Port ten\n", "config0:2: expected a port, got 'ten'"),
        ("Port 70000\n", "config0:1: expected a port, got '70000'"),
        ("Match host\n", "config0:1: expected a value after 'host', got none"),
        ("Include {0}\n", "Include forms a cycle. Remove one of the Include lines"),
        ("?\n", "config0:1: expected an option of ssh_config, got '?'"),
    ],
)
def test_a_line_that_means_nothing_is_named(tmp_path: Path, text: str, said: str) -> None:
    config = written(tmp_path, (text,))
    with pytest.raises(LaunchError) as caught:
        read(str(config)).lookup("a")
    assert str(caught.value).endswith(said)
