"""Launcher of distributed scripts; replaces MXNet's tools/launch.py."""

import argparse
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

if not __package__:
    print(
        "error: launch/launch.py: cannot run as a script. "
        "Run 'python -m launch.launch ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)

from bench.errors import SpecError, error_line, is_whole, quoted
from bench.settings.secrets import MASK, is_secret, masked_text
from im2rec_tools.cli import exit_code, interruptible
from im2rec_tools.options import ProgramParser
from im2rec_tools.terminal import echo, install_filter, printable
from launch.hostfile import HostEntry, find
from launch.hosts import Host, HostOptions, Login, this_machine
from launch.job.agents import Agents
from launch.job.controller_log import parse_level, print_log
from launch.job.monitor import Verdict, signal_name
from launch.job.plan import Process, describe
from launch.job.run import run_script
from launch.job.style import WITH_SERVERS, Style, layout, listeners, started, variables
from launch.preflight.addresses import located
from launch.push import in_tree, push
from launch.remote.errors import LaunchError
from launch.transport.client import Message, map_hosts
from launch.transport.line import Starter

_JOB, _HOSTS = "Job", "Hosts"
_OPTIONS = (
    (_JOB, "-n --num-workers", "N", "Number of workers in the job [required]"),
    (
        _JOB,
        "-s --num-servers",
        "N",
        "Number of servers in the job, with --style dmlc [number of workers] or tensorflow [0]",
    ),
    (
        _JOB,
        "--style",
        "NAME",
        "Variables of the processes: dmlc (MXNet), torch, tensorflow, or mpi (start COMMAND once, "
        "with a host list for mpirun) [dmlc]",
    ),
    (
        _JOB,
        "--launcher",
        "HOW",
        "Where processes start: ssh (on the hosts) or local (on this machine) [ssh]",
    ),
    (
        _JOB,
        "--port",
        "PORT",
        "Port of the scheduler or of rank 0; with tensorflow, the first port on each host "
        "[a free port]",
    ),
    (
        _HOSTS,
        "-H --hostfile",
        "FILE",
        "Hosts file, one host per line [$DEEPLEARNING_WORKERS_PATH, else Slurm's hosts]",
    ),
    (
        _HOSTS,
        "--hosts-format",
        "FORMAT",
        "How to read HOST:N in a hosts file: dmlc (N is the SSH port) or mpich (N devices) "
        "[required if ambiguous]",
    ),
    (
        _HOSTS,
        "--sync-dst-dir",
        "DIR",
        "Copy the current folder to DIR on each host and run the command there [not copied]",
    ),
    (
        _JOB,
        "--log-level",
        "LEVEL",
        "Print what the launcher does from this level: debug, info, warning or error "
        "[MXSCALE_LOG_LEVEL, else warning]",
    ),
    (_HOSTS, "--ssh-config", "FILE", "SSH client configuration [~/.ssh/config]"),
    (
        _HOSTS,
        "--via",
        "TEMPLATE",
        "Reach hosts by a command in place of SSH, such as 'docker exec -i {host}', or let them "
        "connect: dial:PORT:FILE [SSH]",
    ),
    (
        _HOSTS,
        "--interface",
        "NAME",
        "Network interface for the job [that of the controller's connection]",
    ),
)
_VARIABLES = {"-x --env": "all", "--env-worker": "workers", "--env-server": "servers"}
_REPEATABLE = {flag for flags in _VARIABLES for flag in flags.split()}
_ALONE = {"--accept-new", "--dry-run", "--p3", "-h", "--help"}
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:[=:](.*))?", re.DOTALL | re.ASCII)
# What upstream forwards to other hosts, less the keys of an account.
_FORWARDED = ("OMP_NUM_THREADS", "KMP_AFFINITY", "LD_LIBRARY_PATH")
# What upstream's launcher sets with --p3: ps-lite's priority queue, and the messages under way.
_P3 = {"DMLC_PS_VAN_TYPE": "p3", "DMLC_PS_WATER_MARK": "10"}
_MOST = 10_000
_INSTEAD = {
    "mpi": "Use --launcher ssh with the same hosts file",
    "sge": "Write the hosts of the queue to a file and use --launcher ssh",
    "yarn": "Write the hosts to a file and use --launcher ssh",
}


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of a job; `env` has the variables of 'all', 'workers' and 'servers'."""

    command: tuple[str, ...]
    workers: int
    servers: int
    local: bool
    style: Style
    dry_run: bool
    env: dict[str, dict[str, str]]
    hostfile: str = ""
    format: str = ""
    sync_dst_dir: str = ""
    ssh_config: str = ""
    accept_new: bool = False
    via: str = ""
    interface: str = ""
    port: int | None = None
    log_level: str = ""

    def variables(self, role: str) -> dict[str, str]:
        """Return the variables of a process; those of its role override those of all."""
        return self.env["all"] | self.env.get(f"{role}s", {})


def parse_options(words: Sequence[str], environ: Mapping[str, str]) -> LaunchOptions:
    """Parse a command line; LaunchError if it is wrong.

    environ  this machine's environment, for variables given without a value
    """
    own, command = _split(words)
    try:
        given, unknown = parser().parse_known_args(own)
    except argparse.ArgumentError as error:
        raise LaunchError(
            error_line(error.argument_name, problem=error.message, fix="See --help")
        ) from None
    if unknown:
        raise LaunchError(error_line(unknown[0], problem="no such option", fix="See --help"))
    _refuse(given)
    _refuse_style(given)
    if not command:
        raise LaunchError(
            error_line(
                "command",
                expected="a program and its arguments after the options",
                got="none",
                fix="Add it, such as: -- python train.py",
            )
        )
    workers, style = _whole("-n", given.num_workers, _MOST), Style(given.style or Style.DMLC)
    default = workers if style is Style.DMLC else 0
    return LaunchOptions(
        command=tuple(command),
        workers=workers,
        servers=default if given.num_servers is None else _whole("-s", given.num_servers, _MOST),
        local=given.launcher == "local",
        style=style,
        dry_run=given.dry_run,
        env=_env(given, environ),
        hostfile=given.hostfile or "",
        format=given.hosts_format or "",
        sync_dst_dir=given.sync_dst_dir or "",
        ssh_config=given.ssh_config or "",
        accept_new=given.accept_new,
        via=given.via or "",
        interface=given.interface or "",
        port=None if given.port is None else _whole("--port", given.port, 65535),
        log_level=given.log_level or "",
    )


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the launcher's words, a flag before each variable, and the command.

    argparse would parse options in the command too.
    """
    own: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        flag, has_value = _flag(words[at])
        taken = 1 if has_value or flag in _ALONE else 2
        own += words[at : at + taken]
        at += taken
        while flag in _REPEATABLE and at < len(words):
            found = _VARIABLE.fullmatch(words[at])
            if found is None or found[2] is None:
                break
            own += [flag, words[at]]
            at += 1
    return own, list(words[at + (words[at : at + 1] == ["--"]) :])


def _flag(word: str) -> tuple[str, bool]:
    """Return an option's name, and whether the word has its value too: '-n2'."""
    if word.startswith("--"):
        name, has_value, _ = word.partition("=")
        return name, bool(has_value)
    return word[:2], len(word) > 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m launch.launch`'s own options."""
    made = ProgramParser(
        prog="python -m launch.launch",
        usage="%(prog)s -n N [-s N] [-H FILE | --launcher local] [options] [--] COMMAND ...",
        description="Start a distributed script on hosts over SSH or on this machine: scheduler, "
        "servers and workers with DMLC_*, or the processes of another framework with its "
        "variables. If one process fails, end all others. Exits with the code of the first process "
        "that failed, or 1 if a host is lost.",
        exit_on_error=False,
    )
    groups = {name: made.add_argument_group(name) for name in (_JOB, _HOSTS)}
    for group, flags, metavar, text in _OPTIONS:
        groups[group].add_argument(*flags.split(), metavar=metavar, help=text)
    add = made.add_argument_group("Environment").add_argument
    for flags, role in _VARIABLES.items():
        whose = "every process" if role == "all" else f"the {role}"
        text = f"Set a variable of {whose}; NAME alone passes its value on this machine"
        text += " [none] (repeatable)"
        add(*flags.split(), action="append", default=[], metavar="NAME=VALUE", help=text, dest=role)
    text = "Accept the keys of hosts that are not in known_hosts yet"
    groups[_HOSTS].add_argument("--accept-new", action="store_true", help=text)
    text = "Print the processes with their variables and commands; start none of them"
    groups[_JOB].add_argument("--dry-run", action="store_true", help=text)
    add("--p3", action="store_true", help="Send arrays in slices by priority (P3) [off]")
    return made


def _refuse(given: argparse.Namespace) -> None:
    """Raise LaunchError for upstream's unsupported options, and for contradictions."""
    if given.launcher in _INSTEAD:
        raise LaunchError(
            error_line(
                f"--launcher {given.launcher}",
                problem="not supported",
                fix=_INSTEAD[given.launcher],
            )
        )
    if given.launcher not in {None, "ssh", "local"}:
        raise LaunchError(
            error_line("--launcher", expected="ssh or local", got=quoted(given.launcher))
        )
    for name, value in vars(given).items():
        if value == "":
            raise LaunchError(
                error_line(f"--{name.replace('_', '-')}", expected="a value", got="an empty one")
            )
    for name in ("hostfile", "hosts_format", "sync_dst_dir", "ssh_config", "via", "interface"):
        if given.launcher == "local" and getattr(given, name):
            flag = "--" + name.replace("_", "-")
            raise LaunchError(
                error_line(
                    flag,
                    expected="--launcher ssh",
                    got="local, which uses this machine only",
                    fix=f"Remove {flag}",
                )
            )


def _refuse_style(given: argparse.Namespace) -> None:
    """Raise LaunchError for an unknown style, and for options that it does not have."""
    if given.style not in {None, *Style}:
        raise LaunchError(
            error_line(
                "--style", expected=", ".join(Style), got=quoted(given.style), fix="See --help"
            )
        )
    style = Style(given.style or Style.DMLC)
    refused = {
        "-s": (given.num_servers is not None, WITH_SERVERS),
        "--env-server": (bool(given.servers), WITH_SERVERS),
        "--p3": (given.p3, {Style.DMLC}),
        "--port": (given.port is not None, set(Style) - {Style.MPI}),
    }
    for flag, (is_given, styles) in refused.items():
        if is_given and style not in styles:
            missing = {"--p3": "P3", "--port": "port"}.get(flag, "servers")
            problem = f"--style {style} has no {missing}"
            raise LaunchError(error_line(flag, problem=problem, fix=f"Remove {flag}"))


def _whole(flag: str, text: str | None, most: int) -> int:
    if text is not None and is_whole(text) and 1 <= int(text) <= most:
        return int(text)
    found = "none" if text is None else repr(text)
    raise LaunchError(error_line(flag, expected=f"a whole number from 1 to {most}", got=found))


def _env(given: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    forwarded = {name: environ[name] for name in _FORWARDED if name in environ}
    env = {
        role: dict(_variable(word, environ) for word in getattr(given, role))
        for role in _VARIABLES.values()
    }
    return env | {"all": forwarded | (_P3 if given.p3 else {}) | env["all"]}


def _variable(word: str, environ: Mapping[str, str]) -> tuple[str, str]:
    found = _VARIABLE.fullmatch(word)
    if found is None:
        name = re.split("[=:]", word)[0]
        shown = f"{name}={MASK}" if name != word and is_secret(name) else word
        raise LaunchError(error_line("--env", expected="NAME=VALUE or NAME", got=quoted(shown)))
    name, value = found[1], found[2]
    if value is None and name not in environ:
        raise LaunchError(
            error_line(
                f"--env {name}",
                expected="a variable that is set here",
                got="none",
                fix=f"Give {name}=VALUE",
            )
        )
    return name, environ[name] if value is None else value


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job; return its exit code.

    It is 0, the code of the first process that failed, 1 for a lost host, 2 for a wrong option or
    hosts file, or 128 + n for signal n.
    """
    install_filter()
    caught = interruptible()
    try:
        wanted = parse_options(sys.argv[1:] if argv is None else argv, os.environ)
        print_log(parse_level(wanted.log_level))
        verdict = _launch(wanted)
        code, message = verdict.code, verdict.message
    except (LaunchError, SpecError) as error:
        code, message = 2, str(error)
    except BrokenPipeError:  # the reader, such as head, has exited
        code, message = 128 + signal.SIGPIPE, ""
    except KeyboardInterrupt:
        code, message = exit_code(caught), f"{signal_name(caught[0])}: every process was ended"
    if message:
        echo(f"error: {masked_text(message)}", err=True)
    return code


def _launch(wanted: LaunchOptions) -> Verdict:
    if wanted.local:
        return _run(wanted, Agents(), (replace(this_machine(), tree=str(Path.cwd())),))
    listed = _listed(wanted)
    # Fabric takes a second to load, and a job on this machine does not need it.
    from launch.setup import connections_to  # noqa: PLC0415

    reach = HostOptions(ssh_config=wanted.ssh_config, accept_new=wanted.accept_new, via=wanted.via)
    with closing(connections_to(listed, reach)) as connections:
        start = connections.start
        hosts = located(start, _hosts(wanted, listed), wanted.interface)
        if wanted.sync_dst_dir and not wanted.dry_run:
            _sync(start, hosts)
        return _run(wanted, Agents(start), hosts)


def _run(wanted: LaunchOptions, agents: Agents, hosts: Sequence[Host]) -> Verdict:
    with closing(agents):
        job = processes(wanted, hosts, agents.free_port)
        if wanted.dry_run:
            echo(*describe(job))
            return Verdict(status="ok")
        return run_script(job, agents, _show)


def _listed(wanted: LaunchOptions) -> tuple[HostEntry, ...]:
    """Return the listed hosts; LaunchError if there is none."""
    listed = find(wanted.hostfile, "", wanted.format, os.environ)
    if not listed:
        raise LaunchError(
            error_line(
                "-H",
                expected="a hosts file",
                got="none",
                fix="Give -H FILE, or --launcher local to run on this machine",
            )
        )
    return listed


def _hosts(wanted: LaunchOptions, listed: Sequence[HostEntry]) -> tuple[Host, ...]:
    """Return the hosts that the job needs, without addresses."""
    logins = [Login.read(host.target, host.port) for host in listed]
    tree = wanted.sync_dst_dir or str(Path.cwd())
    return tuple(
        Host(name=login.target, address="", cpus=0, gpus=0, tree=tree, login=login)
        for login in logins[: max(wanted.workers, wanted.servers)]
    )


def _sync(start: Starter, hosts: Sequence[Host]) -> None:
    """Copy the files of the current folder to the tree of each host."""
    here = Path.cwd()
    paths = [path.relative_to(here) for path in sorted(here.rglob("*")) if path.is_file()]
    pieces = [in_tree(here, str(path)) for path in paths if ".git" not in path.parts]
    map_hosts(lambda host: deque(push(pieces, host, start, ""), maxlen=0), hosts)


def _show(message: Message) -> None:
    """Print the output of a process; each line begins with its name."""
    if message.say != "output":
        return
    label = f"[{message.host.name} {message.values['id'].replace('-', ' ')}] "
    shown = printable if os.isatty(1) else str
    text = "".join(f"{label}{shown(line)}\n" for line in message.values["lines"])
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LaunchError(
            error_line("stdout", problem=f"cannot be written ({error.strerror})")
        ) from error


def processes(
    options: LaunchOptions,
    hosts: Sequence[Host],
    free_port: Callable[[Host, int | None], int],
) -> list[Process]:
    """Return the processes to start, in order; `free_port` finds a port on a host.

    Raises LaunchError if a host has no such port.
    """
    style = options.style
    job = layout(style, hosts, options.workers, options.servers, options.command)
    ports: dict[str, int] = {}
    used: dict[str, set[int]] = {}
    for process in listeners(style, job):
        taken = used.setdefault(process.host.name, set())
        wanted = None if options.port is None else options.port + len(taken)
        while (port := free_port(process.host, wanted)) in taken:
            pass
        taken.add(port)
        ports[process.id] = port
    found = variables(style, job, ports)
    return [
        replace(process, env=options.variables(process.role) | found[process.id])
        for process in started(style, job)
    ]


if __name__ == "__main__":
    sys.exit(main())
