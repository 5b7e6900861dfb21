"""Networks of the published study and related ones, as upstream defines them."""

from bench.networks.catalog import NETWORKS, Network, describe, named

__all__ = ["NETWORKS", "Network", "describe", "named"]
