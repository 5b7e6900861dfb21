"""Train with MXNet, print by its Speedometer: speedometer.py BATCH."""

import logging
import sys

from bench.mxnet_import import mx

BATCH, STEPS = int(sys.argv[1]), 100_000


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    net = mx.gluon.nn.Dense(10)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    loss, metric = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy()
    show = mx.callback.Speedometer(BATCH, 20)
    images, labels = mx.nd.ones((BATCH, 500)), mx.nd.zeros(BATCH)
    for step in range(STEPS):
        with mx.autograd.record():
            scores = net(images)
            error = loss(scores, labels)
        error.backward()
        trainer.step(BATCH)
        metric.update([labels], [scores])
        show(mx.model.BatchEndParam(epoch=0, nbatch=step, eval_metric=metric, locals=None))


if __name__ == "__main__":
    main()
