"""The networks of the published study and their relatives, by upstream's architectures."""

from bench.networks.catalog import NETWORKS, Network, describe, named

__all__ = ["NETWORKS", "Network", "describe", "named"]
