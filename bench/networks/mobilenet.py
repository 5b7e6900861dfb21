"""MobileNet 1.0 (Howard et al. 2017) in upstream's variant.

Normalization scales are fixed. Upstream's last pooling is 7 x 7 at any image size, so its images
must have 224 pixels. Here it covers the remaining feature map; at 224 pixels both are the same.
"""

from typing import Any

from bench.networks.layers import Classifier, convolution
from bench.training.mxnet_shim import mx

nn = mx.gluon.nn

# Per pair: output channels of the 1 x 1 convolution, stride of the depthwise one before it.
_PAIRS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)


def mobilenet(*, num_classes: int, **_: Any) -> Any:
    """Build the network: (N, 3, 224, 224) images to (N, num_classes) scores."""
    net = Classifier(num_classes, prefix="mobilenet_")
    with net.name_scope():
        net.features.add(convolution(32, 3, strides=2, padding=1))
        before = 32
        for channels, strides in _PAIRS:
            net.features.add(
                convolution(before, 3, strides=strides, padding=1, groups=before),
                convolution(channels),
            )
            before = channels
        net.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
    return net
