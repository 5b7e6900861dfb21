"""What runs a trial: `mxnet` trains, `fake` says scripted window times and rehearses faults."""

from bench.engines import fake, mxnet

# command(trial, role, index): what stands behind the interpreter to start that process.
ENGINES = {"mxnet": mxnet.command, "fake": fake.command}
