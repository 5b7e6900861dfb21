"""Run upstream's im2rec.py under NumPy 2.

`python -m benchmarks.upstream PREFIX ROOT ...` runs the file of the installed mxnet package. It
replaces only `tostring` and names that NumPy 2 removed.
"""

import numbers
import runpy
import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bench.training.mxnet_shim import mx


def pack(header: Any, payload: bytes) -> bytes:
    """Pack a record as mxnet/recordio.py does, with `tobytes`."""
    if isinstance(header.label, numbers.Number):
        header = header._replace(flag=0)
    else:
        labels = np.asarray(header.label, dtype=np.float32)
        header = header._replace(flag=labels.size, label=0)
        payload = labels.tobytes() + payload
    return struct.pack("IfQQ", *header) + payload


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Pack an image as mxnet/recordio.py does, with `tobytes`."""
    jpeg = img_fmt.lower() in {".jpg", ".jpeg"}
    kind = cv2.IMWRITE_JPEG_QUALITY if jpeg else cv2.IMWRITE_PNG_COMPRESSION
    _, encoded = cv2.imencode(img_fmt, img, [kind, quality])
    return pack(header, encoded.tobytes())


if __name__ == "__main__":
    mx.recordio.pack, mx.recordio.pack_img = pack, pack_img
    path = Path(mx.__file__).parent / "tools" / "im2rec.py"
    runpy.run_path(str(path), run_name="__main__")
