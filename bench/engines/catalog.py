"""The engines by name: `mxnet` trains; `fake` plays window times and faults."""

from bench.engines import fake, mxnet

# command(trial, role, index): the arguments after the interpreter that start that process.
ENGINES = {"mxnet": mxnet.command, "fake": fake.command}
