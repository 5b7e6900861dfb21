"""The networks of the published study and related ones, in upstream's architectures."""

from bench.networks.catalog import NETWORKS, Network, describe, named

__all__ = ["NETWORKS", "Network", "describe", "named"]
