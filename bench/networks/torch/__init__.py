"""The same networks as PyTorch modules: equal arrays, layers and first weights.

`bench.networks.catalog` has their names, depths and image shapes.
"""
