"""Upstream's im2rec.py as a program, under a NumPy that it was not written for.

`python -m tests.upstream PREFIX ROOT ...` runs the file of the installed mxnet package as it is.
Only what NumPy 2 took away is put back: names that the package looks up, and `tostring`.
"""

import runpy
from pathlib import Path
from typing import Any

import cv2

from bench.mxnet_import import mx


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> Any:
    """As mxnet/recordio.py has it, but for `tobytes`."""
    jpeg = img_fmt.lower() in {".jpg", ".jpeg"}
    kind = cv2.IMWRITE_JPEG_QUALITY if jpeg else cv2.IMWRITE_PNG_COMPRESSION
    _, encoded = cv2.imencode(img_fmt, img, [kind, quality])
    return mx.recordio.pack(header, encoded.tobytes())


if __name__ == "__main__":
    mx.recordio.pack_img = pack_img
    path = Path(mx.__file__).parent / "tools" / "im2rec.py"
    runpy.run_path(str(path), run_name="__main__")
