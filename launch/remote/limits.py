"""Deadlines and silence limits of the launcher, in seconds, each with its reason.

Read a limit as `limits.NAME` at the time of use, because tests shorten them.
tests/launch/remote/test_limits.py holds their order.
"""

# A controller, its agents and their processes.
# Agent, receiver and controller send something at least this often, however busy they are.
BEAT_SECONDS = 1.0
# After this silence of an agent, the silence of its processes does not count.
AGENT_PAUSE_SECONDS = 2.0
# An agent that receives nothing for this long ends all its processes, and itself.
CONTROLLER_SILENCE_SECONDS = 5.0
# A host whose agent sends nothing for this long is lost: by then its agent has ended, too.
AGENT_SILENCE_SECONDS = 6.0
# The same for a script's job, which has no other deadline.
SCRIPT_SILENCE_SECONDS = 7.0
# Processes get this long between SIGTERM and SIGKILL, and again to be gone after SIGKILL.
GRACE_SECONDS = 2.0
# An agent that ends sends its remaining messages for this long.
FLUSH_SECONDS = 1.0
# The controller waits this long for an agent to end a job: longer than twice the grace.
STOP_SECONDS = 6.0
# The controller waits this long for an agent to go once its line is closed.
AGENT_CLOSE_SECONDS = 8.0
# An agent answers within this: with its lease, or with a port.
AGENT_ANSWER_SECONDS = 10.0
# A holder of a lease answers within this.
LEASE_ANSWER_SECONDS = 1.0
# Two agents that take a lease at once retry after a random part of this.
LEASE_RETRY_SECONDS = 0.3

# hosts.stop: an agent ends all on SIGUSR1, longer than twice the grace; else it is killed.
END_BY_SIGNAL_SECONDS = 7.0
END_BY_KILL_SECONDS = 2.0
# The controller waits this long for both.
END_SECONDS = 15.0

# A job. The first four are defaults of options.
RENDEZVOUS_SECONDS = 120.0
FIRST_WINDOW_SECONDS = 600.0
PROGRESS_SECONDS = 60.0
ENDING_SECONDS = 15.0
# Servers and the scheduler of a script get this long after its workers.
SCRIPT_ENDING_SECONDS = 5.0
# A process that reports its failure exits within this: one message has both.
EXIT_SECONDS = 0.3
# Messages of different hosts arrive in any order within this.
ORDER_SECONDS = 5.0
# The scheduler gives all processes their ranks at once; busy hosts receive them later.
PLACE_SECONDS = 20.0

# A stream of messages and files: each side abandons the other after this silence.
STREAM_SILENCE_SECONDS = 15.0
# A program ends within this once its connection is closed, or if nobody waits for it.
CLOSE_SECONDS = 2.0
ABANDON_SECONDS = 0.5

# Requests. The controller waits longer than the program on the host does.
# The first import of MXNet, from a cold disk, takes long.
IMPORT_SECONDS = 120
FACTS_SECONDS = 150.0
# A short program on a host, such as git, a shell or nvidia-smi.
COMMAND_SECONDS = 10
GPU_QUERY_SECONDS = 20
# A host's connection to another host, and all of its connections.
REACH_SECONDS = 3.0
PROBE_SECONDS = 20.0
ADDRESS_SECONDS = 15.0
# A bandwidth transfer may stall for this long.
MEASURE_SECONDS = 30.0
BANDWIDTH_SECONDS = 60.0
# A host lists its shards, or measures their disk; with --verify it reads all of them.
CONTENTS_SECONDS = 100
CONTENTS_ANSWER_SECONDS = 120.0
VERIFY_SECONDS = 24 * 3600
VERIFY_ANSWER_SECONDS = 25 * 3600.0
# A host makes its Python environment.
ENVIRONMENT_SECONDS = 3600.0
# Longest fetch of data by a host.
FETCH_SECONDS = 48 * 3600.0

# A local test cluster starts within the first, plus the second per host (16 hosts take a tenth of
# it on two cores). It ends within the third; a program inside a host ends within the last.
PRACTICE_START_SECONDS = 20.0
PRACTICE_HOST_SECONDS = 1.0
PRACTICE_END_SECONDS = 10.0
PRACTICE_PROGRAM_SECONDS = 60.0

# SSH. The banner has less time than the connection, so that silence is reported as such.
CONNECT_SECONDS = 10.0
BANNER_SECONDS = 8.0
# A full server ends a connection within this; a suspended one sends nothing.
DROP_SECONDS = 2.0
# A connection sends keepalives this often, and ends after this silence.
KEEPALIVE_SECONDS = 2
SSH_SILENCE_SECONDS = 8
# A login shell and then Python start within this.
PROGRAM_START_SECONDS = 15.0
# The same by a command of the user: a scheduler may start a step late.
VIA_START_SECONDS = 30.0
# Every host joins within this, counted from the start of the controller.
JOIN_SECONDS = 60.0
# A program that did not start ends within this.
PROGRAM_END_SECONDS = 1.0
# The exit code and stderr of a program that has ended arrive within this.
LINE_END_SECONDS = 1.0
