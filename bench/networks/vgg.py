"""VGG without batch normalization (Simonyan and Zisserman 2014).

Same as in the Gluon zoo.
"""

from typing import Any

from bench.training.mxnet_shim import mx


def vgg(*, num_classes: int, num_layers: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    return mx.gluon.model_zoo.vision.get_vgg(num_layers, classes=num_classes)
