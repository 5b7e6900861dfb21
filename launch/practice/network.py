"""Network of a local test cluster: a switch, links to hosts and the machine."""

import ipaddress
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from bench.errors import error_line, quoted
from launch.practice.namespaces import environment
from launch.practice.state import Cluster, Node
from launch.remote import limits
from launch.remote.errors import LaunchError

# Private and rarely used; the later ones if the machine has a route to the first.
_RANGES = ("10.213.0.0/16", "172.29.0.0/16", "192.168.0.0/16")
_MASTER = 254
_RATE = re.compile(r"[1-9][0-9]{0,3}[kmg]bit")
# More hosts get their hardware addresses in advance instead of by ARP: one kernel keeps 1,024
# entries for all namespaces, and 33 hosts that reach each other need as many.
_MOST_ASKING = 16
_AGAIN = "Run the same command again"


@dataclass(frozen=True, kw_only=True)
class Link:
    """Link of a host: whether it is up, and its limit (0: none)."""

    up: bool
    bits_per_second: int


def run(*argv: str, text: str = "") -> str:
    """Run a short program and return its output.

    LaunchError with its error if it fails.
    """
    try:
        done = subprocess.run(
            argv,
            input=text,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=limits.COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        words, seconds = " ".join(argv), limits.COMMAND_SECONDS
        raise LaunchError(
            error_line(words, problem=f"did not end within {seconds} s", fix=_AGAIN)
        ) from None
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "-:" not in line]
        raise LaunchError(
            error_line(" ".join(argv), problem=lines[0] if lines else "failed", fix=_AGAIN)
        )
    return done.stdout


def _within(pid: int, *argv: str, lines: Iterable[str] = ()) -> str:
    """Run ip or tc in the network namespace of a process."""
    text = "".join(f"{line}\n" for line in lines)
    return run("nsenter", f"--target={pid}", "--net", *argv, text=text)


def claim(pid: int) -> tuple[str, ipaddress.IPv4Network]:
    """Create the machine's link into a process's namespace.

    Return its name and its subnet.

    The name stands for the subnet, and the kernel allows it only once.
    """
    routes = json.loads(run("ip", "-4", "-json", "route", "show", "table", "all"))
    routed = [ipaddress.ip_network(route["dst"]) for route in routes if route["dst"] != "default"]
    for network in (ipaddress.IPv4Network(text) for text in _RANGES):
        for subnet in network.subnets(new_prefix=24):
            link = f"mxs{int(subnet.network_address) >> 8 & 0xFFFF:04x}"
            if not any(subnet.overlaps(other) for other in routed) and _lay(link, subnet, pid):
                return link, subnet
    raise LaunchError(
        error_line(
            "local test cluster", expected=f"a free subnet of {', '.join(_RANGES)}", got="none"
        )
    )


def master(subnet: ipaddress.IPv4Network) -> str:
    """Return the machine's address in a subnet."""
    return str(subnet[_MASTER])


def _lay(link: str, subnet: ipaddress.IPv4Network, pid: int) -> bool:
    try:
        run(*f"ip link add dev {link} type veth peer name uplink netns {pid}".split())
    except LaunchError as error:
        if "File exists" in str(error):
            return False
        raise
    run(*f"ip address add {master(subnet)}/24 dev {link}".split())
    run(*f"ip link set dev {link} up".split())
    return True


def wire(pid: int, nodes: Iterable[Node]) -> None:
    """Create the switch in the namespace of a process, with a link to each host."""
    nodes = list(nodes)
    lines = ["link add dev switch type bridge", "link set dev switch up"]
    lines.append("link set dev uplink master switch up")
    for node in nodes:
        peer = f"peer name eth0 address {_mac(node)} netns {node.pid}"
        lines.append(f"link add dev {node.name} type veth {peer}")
        lines.append(f"link set dev {node.name} master switch up")
    _within(pid, "ip", "-batch", "-", lines=lines)
    for node in nodes:
        address = f"address add {node.address}/24 dev eth0"
        lines = ["link set dev lo up", address, "link set dev eth0 up"]
        if len(nodes) > _MOST_ASKING:
            lines += [f"neigh add {one.address} lladdr {_mac(one)} dev eth0" for one in nodes]
        _within(node.pid, "ip", "-batch", "-", lines=lines)


def _mac(node: Node) -> str:
    """Return a host's locally administered hardware address, from its numeric one."""
    return ":".join(
        f"{byte:02x}" for byte in b"\x02\0" + ipaddress.IPv4Address(node.address).packed
    )


def turn(cluster: Cluster, node: Node, to: str) -> None:
    """Set a host's link 'up' or 'down' at the switch: no host is notified."""
    _within(cluster.pid, "ip", "link", "set", "dev", node.name, to)


def limit(cluster: Cluster, nodes: Iterable[Node], rate: str) -> None:
    """Limit links of hosts in both directions to a rate such as 200mbit.

    'none': no limit.
    """
    if rate != "none" and not _RATE.fullmatch(rate):
        raise LaunchError(
            error_line(
                "rate", expected="a limit such as 200mbit or 1gbit, or none", got=quoted(rate)
            )
        )
    kind = "noqueue" if rate == "none" else f"tbf rate {rate} burst 256k latency 20ms"
    for node in nodes:
        for pid, name in ((cluster.pid, node.name), (node.pid, "eth0")):
            _within(pid, "tc", *f"qdisc replace dev {name} root {kind}".split())


def links(cluster: Cluster) -> dict[str, Link]:
    """Return the links at the switch, by host name."""
    rates = {}
    for one in json.loads(_within(cluster.pid, "tc", "-json", "qdisc", "show")):
        rates[one["dev"]] = 8 * one["options"].get("rate", 0)  # tc prints bytes
    return {
        link["ifname"]: Link(up="UP" in link["flags"], bits_per_second=rates.get(link["ifname"], 0))
        for link in json.loads(_within(cluster.pid, "ip", "-json", "link", "show"))
    }
