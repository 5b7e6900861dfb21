"""What runs a trial: `mxnet` trains, `fake` says scripted window times and rehearses faults."""

from bench.engines import fake, mxnet

# Each has command(trial, role, index): the program of that process, to stand behind the interpreter.
ENGINES = {"mxnet": mxnet.command, "fake": fake.command}
