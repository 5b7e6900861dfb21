"""Slurm with two nodes in network namespaces, to run a command under it."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PROGRAMS = ("slurmctld", "slurmd", "srun", "salloc", "sbatch", "unshare", "nsenter", "ip")
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_CONF = """
ClusterName=lab
SlurmctldHost=controller(10.9.0.254)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=n1 NodeAddr=10.9.0.1 CPUs=2
NodeName=n2 NodeAddr=10.9.0.2 CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# `ip netns exec` would hide /sys/fs/cgroup, and slurmd then ends without a message.
_SCRIPT = """
set -e
ip link set lo up
ip link add switch type bridge
ip address add 10.9.0.254/24 dev switch
ip link set switch up
printf '127.0.0.1 localhost\\n10.9.0.1 n1\\n10.9.0.2 n2\\n10.9.0.254 controller\\n' >hosts
mount --bind hosts /etc/hosts
hostname controller
mkdir state n1 n2
export SLURM_CONF=$PWD/slurm.conf
for i in 1 2; do
  unshare --net --uts sh -c "hostname n$i; echo ready >n$i/ready; exec sleep infinity" &
  nodes[i]=$!
  until [ -s n$i/ready ]; do sleep 0.05; done
  ip link add link$i type veth peer name eth0 netns ${nodes[i]}
  ip link set link$i master switch up
  nsenter --target ${nodes[i]} --net sh -c \
    "ip link set lo up; ip address add 10.9.0.$i/24 dev eth0; ip link set eth0 up"
done
slurmctld -D >controller.log 2>&1 &
for i in 1 2; do
  nsenter --target ${nodes[i]} --net --uts slurmd -D -N n$i >n$i.log 2>&1 &
  echo $! >n$i/pid
done
for i in $(seq 150); do
  [ "$(sinfo --noheader --format=%D%t 2>/dev/null)" = 2idle ] && break
  sleep 0.1
done
cd "$1"
shift
code=0
"$@" || code=$?
# Commands of a template and what they started have the loader in their words.
if pgrep --full --list-full 'stdin[.]buffer[.]raw' >&2; then exit 99; fi
exit $code
"""


def missing() -> str:
    """Return what this machine lacks for it; empty if nothing."""
    if os.geteuid():
        return "needs root"
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"needs {absent[0]}: apt-get install slurm-wlm iproute2" if absent else ""


def run(folder: Path, words: Sequence[str], where: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder `where` beside Slurm, which ends with it.

    The nodes are n1 and n2, of two CPUs each; their files are in `folder`. The exit code is 99 if
    programs on nodes are left.
    """
    folder.mkdir()
    (folder / "slurm.conf").write_text(_CONF.format(folder=folder))
    apart = "unshare --mount --net --uts --pid --mount-proc --fork --kill-child bash -c"
    return subprocess.run(
        [*apart.split(), _SCRIPT, "lab", str(where), *words],
        cwd=folder,
        env={**os.environ, "PATH": _PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
