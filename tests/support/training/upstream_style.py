"""Training script in upstream's style: it reads DMLC_*, and every role runs it."""

import os
import sys

from bench.training.mxnet_shim import mx

# Servers and the scheduler serve within this import and do not return from it.
store = mx.kv.create("dist_sync")
shape = (3, 4)
store.init("w", mx.nd.zeros(shape))
for step in range(3):
    store.push("w", mx.nd.ones(shape) * (store.rank + 1) * (step + 1))
    pulled = mx.nd.zeros(shape)
    store.pull("w", out=pulled)
    print("step", step, "sum", pulled.asnumpy().sum(), "of", store.num_workers, flush=True)
print("host", os.environ["DMLC_NODE_HOST"], "argument", sys.argv[1], flush=True)
