"""report.md: summary, table, figures, failed points, environment, commands."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape

from im2rec_tools.terminal import one_line
from plots.fact_labels import fact_label, fact_value, own_facts
from plots.failures import Failures, attempt_items, attempt_text
from plots.figures.caption import provenance, settings_line
from plots.figures.model import input_rows, is_drawn
from plots.format import fenced, in_cell, in_line, list_names
from plots.items import markdown_list
from plots.page.commands import reproduce_note
from plots.summary import summary_items
from plots.tables import predictions
from plots.tables.scaling import failure_items, markdown, trouble_lines
from results.cost.cost import NO_COSTS, Costs
from results.host_facts import HOST_FACTS, Place, omitted
from results.integrity.digest import FORMAT
from results.prediction.calibration import NO_PREDICTIONS, Predictions
from results.record import grouped
from results.run import Run, shown_environment
from results.run_folder import FIGURE, RECORDS
from results.scaling import ScalingRow

_HIDDEN = omitted(HOST_FACTS, Place.REPORT)
_MOST_HOSTS = 6
# Commands to print for processes that differ only in their number.
_MOST_SHOWN = 2


def document(
    run: Run,
    costs: Costs = NO_COSTS,
    failures: Failures | None = None,
    predicted: Predictions = NO_PREDICTIONS,
) -> str:
    """Return report.md. Failed parts go to `failures`; without it they raise."""

    def part(name: str, make: Callable[[], str]) -> str:
        """Return a part of the text, or one line with the reason if it fails."""
        before = len(failures.lines) if failures else 0
        text = attempt_text(failures, name, make)
        return in_line(text) if failures and len(failures.lines) > before else text

    parts = [
        f"# {'SIMULATED ' if run.rehearsal else ''}{in_line(run.name)}",
        f"<!-- report-format {FORMAT} -->",
        in_line(str(run.environment.get("description") or "")),
        part("machine", lambda: in_line(provenance(run))),
        part("settings", lambda: in_line(settings_line(run.rows))),
        markdown_list(attempt_items(failures, "summary", lambda: summary_items(run))),
        "\n".join(f"- {in_line(line)}" for line in trouble_lines(run.troubles)),
        part("points without a result", lambda: _failed(run)),
        part("figures", lambda: "\n\n".join(_pictures(run.rows))),
        "## Results",
        markdown(run.rows, costs, failures).rstrip(),
        part("predictions", lambda: predictions.markdown(predicted)),
        part("environment", lambda: _environment(run)),
        part("commands", lambda: _replay(run)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _pictures(rows: Sequence[ScalingRow]) -> Iterator[str]:
    if is_drawn(rows) or input_rows(rows):
        yield "## Scaling"
    if is_drawn(rows):
        yield f"![throughput (images/s), speed-up, efficiency and window times]({FIGURE})"
    if input_rows(rows):
        yield "![throughput (images/s) by decoding threads](threads.svg)"


def _failed(run: Run) -> str:
    """List the points without a result, each with its status and cause."""
    found = failure_items(run.rows, run.missing)
    return f"## Points without a result\n\n{markdown_list(found)}" if found else ""


def _environment(run: Run) -> str:
    kept = {name: one for name, one in shown_environment(run.environment).items() if one}
    facts = [f"- {in_line(fact_label(name))}: {_fact(name, one)}" for name, one in kept.items()]
    hosts = own_facts(run.environment, run.environment.get("hosts") or {})
    found = [*filter(None, ("\n".join(facts), _hosts(hosts)))]
    return "\n\n".join(["## Environment", *found]) if found else ""


def _fact(name: str, value: object) -> str:
    return in_cell(fact_value(name, value) or "") or _text(value)


def _hosts(hosts: Mapping[str, Mapping[str, object]]) -> str:
    """List facts that all hosts share, then a table of differing facts by hosts."""
    names = {name: None for facts in hosts.values() for name in facts if name not in _HIDDEN}
    values = {name: [_fact(name, facts.get(name)) for facts in hosts.values()] for name in names}
    same = {name: texts[0] for name, texts in values.items() if len(set(texts)) == 1}
    alike = [f"- {in_line(fact_label(name))}: {text}" for name, text in same.items() if text != "-"]
    differing = [name for name, texts in values.items() if len(set(texts)) > 1]
    if not hosts:
        return ""
    which = "Host" if len(hosts) == 1 else "Hosts"
    lines = [f"### {which}: {_listed(list(hosts))}", "", *alike]
    if differing:
        groups = grouped(
            (tuple(values[name][number] for name in differing), host)
            for number, host in enumerate(hosts)
        )
        rows = [[_listed(names), *texts] for texts, names in groups.items()]
        labels = [in_cell(fact_label(name)) for name in differing]
        table = [["hosts", *labels], ["---"] * (len(differing) + 1), *rows]
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in table)]
    return "\n".join(lines)


def _listed(hosts: Sequence[str]) -> str:
    return list_names(list(map(in_cell, hosts)), _MOST_HOSTS)


def _text(value: object) -> str:
    """Return a fact as short text; equal members of a list become one with a count."""
    if isinstance(value, Mapping):
        kept = {name: _text(one) for name, one in value.items() if name not in _HIDDEN}
        return (
            ", ".join(f"{in_cell(name)} {text}" for name, text in kept.items() if text != "-")
            or "-"
        )
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, int) for one in value):
            return str(len(value))
        counts = Counter(map(_text, value))
        return ", ".join(f"{n} x {text}" if n > 1 else text for text, n in counts.items()) or "-"
    return in_cell(str(value)) if value is not None and value != "" else "-"


def _replay(run: Run) -> str:
    """Return the commands of each point's first repeat, similar processes once."""
    parts = [_commands(row) for row in run.rows if row.repeats and row.repeats[0].commands]
    if not parts:
        return ""
    how = (
        f"{reproduce_note(run)} The commands are those of each point's first repeat; {RECORDS} has "
        f"those of all repeats and processes."
    )
    return "\n\n".join(["## Reproduce", in_line(how), *parts])


def _commands(row: ScalingRow) -> str:
    commands = row.repeats[0].commands
    lines = []
    for alike in _roles(tuple(commands)):
        shown = alike if len(alike) <= _MOST_SHOWN else alike[:1]
        lines += [text for name in shown for text in (f"# {name}", commands[name])]
        if shown != alike:
            lines.append(f"# {alike[1]} to {alike[-1]}: similar commands in {RECORDS}")
    name = escape(one_line(row.name))
    return f"<details><summary>{name}</summary>\n\n{fenced(lines, 'sh')}\n\n</details>"


@lru_cache(maxsize=64)
def _roles(processes: tuple[str, ...]) -> list[list[str]]:
    """Return the processes of each role; many points have the same."""
    return list(grouped((name.rpartition("-")[0], name) for name in processes).values())
