"""Networks that the Gluon model zoo and upstream's examples have alike.

Each builds an uninitialised block: (N, C, H, W) images to (N, num_classes) scores.
"""

from typing import Any

from bench.mxnet_import import mx

nn, vision = mx.gluon.nn, mx.gluon.model_zoo.vision


def inception_v3(*, num_classes: int, num_layers: int | None = None) -> Any:
    """Inception-v3 (Szegedy et al. 2015), for images of 299 pixels."""
    assert num_layers is None
    return vision.inception_v3(classes=num_classes)


def resnet(*, num_classes: int, num_layers: int | None) -> Any:
    """Residual network with pre-activation (He et al. 2016, "v2").

    The shift of the normalisation of the raw image is trained, as in upstream's. The zoo holds it
    fixed, so that nothing before the first convolution has a gradient. But it is while gradients
    are computed that MXNet moves the averages which validation normalises by: those of the image
    stayed at mean 0 and variance 1.
    """
    net = vision.get_resnet(2, num_layers, classes=num_classes)
    with net.name_scope():
        net.features.register_child(nn.BatchNorm(scale=False, prefix="batchnorm0_"), name="0")
    return net


def vgg(*, num_classes: int, num_layers: int | None) -> Any:
    """VGG without batch normalisation (Simonyan and Zisserman 2014)."""
    return vision.get_vgg(num_layers, classes=num_classes)


def mobilenet(*, num_classes: int, num_layers: int | None = None) -> Any:
    """MobileNet 1.0 (Howard et al. 2017)."""
    assert num_layers is None
    return vision.get_mobilenet(1.0, classes=num_classes)
