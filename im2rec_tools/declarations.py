"""All data commands: `fab data.NAME` and `python -m im2rec_tools NAME`.

Only their help and options are here: a list of commands loads no command.
"""

from dataclasses import replace

from im2rec_tools.cli import (
    Command,
    Option,
    choice,
    integer,
    path,
    path_or_none,
    percentage,
    tree_root,
)
from im2rec_tools.commands.arguments import (
    BOXES,
    CHUNKS,
    ENCODING,
    IMAGES_PER_SHARD,
    LABELS,
    MAX_BAD,
    MIN_IMAGES,
    OUT,
    PART,
    PREPARED,
    PROCESSES,
    SEED,
    SET,
    SHARDS,
    SMALL,
    TRAIN_SHARDS,
    TREE,
    VAL_SHARDS,
    parse_shape,
)
from im2rec_tools.formats.tree import SUFFIXES, suffixes
from im2rec_tools.transfer.urls import parse_folder_url, parse_urls

_SHAPES = ("photographs", "mnist", "cifar-10", "imagenet")
_JOBS = Option(
    "jobs",
    "N",
    "Number of connections at the same time",
    default="8",
    parse=integer(1, 64),
)
_OFFSET = Option(
    "label-offset",
    "N",
    "Difference between TFRecord and RecordIO labels; 1 keeps TFRecord label 0 for the background",
    default="1",
    parse=integer(0, 1),
)
FETCH = Command(
    name="fetch",
    help="Fetch files from web servers or object stores.",
    details=(
        "Checks what it fetches, and resumes after an interruption. URLs begin with http://, "
        "https://, s3://, gs:// or file://; {0..7} stands for these numbers, and a URL that ends "
        "in / for a folder."
    ),
    example="'https://example.org/shards/train_{0..7}.rec' data/mine_rec",
    options=(
        Option("urls", "URL...", "Files or folders to fetch", parse=parse_urls, many=True),
        Option("dir", "DIR", "Folder to write the files to", parse=path),
        replace(PART, text="Fetch the I-th of N shares of the files, one per host"),
        Option(
            "checksums",
            "LIST",
            "File or URL with a checksum of every file, as sha256sum prints them",
            default="",
            empty="files.tsv of a folder, and the manifests of shards",
        ),
        _JOBS,
    ),
    plan="transfer.plan_fetch",
)
UPLOAD = Command(
    name="upload",
    help="Upload the files of a folder to an object store.",
    details=(
        "Uploads files.tsv, a list with their checksums, last. data.fetch reads it. Skips files "
        "that an earlier upload has listed."
    ),
    example="data/mine_rec s3://bucket/mine_rec/",
    options=(
        Option("dir", "DIR", "Folder of the files; hidden ones are skipped", parse=path),
        Option("url", "URL", "Folder to write to: s3://, gs:// or file://", parse=parse_folder_url),
        _JOBS,
    ),
    plan="transfer.plan_upload",
)
PARTITION = Command(
    name="partition",
    help="Write one tar per class, and a list of checksums.",
    details="Hosts fetch shares of the tars with data.fetch --part and unpack them.",
    example="photos data/partitions",
    options=(TREE, OUT, PART),
    plan="partition.plan_partition",
)
UNTAR = Command(
    name="untar",
    help="Unpack a tar of class tars to one folder per class.",
    details="Made for ImageNet's fall11_whole.tar.",
    options=(
        Option("tar", "TAR", "Tar of class tars, or a folder of class tars", parse=path),
        Option("root", "ROOT", "Folder to create the class folders in", parse=path),
        Option(
            "scratch",
            "DIR",
            "Folder for a class until it is complete",
            default="",
            parse=path_or_none,
            empty="ROOT",
        ),
        replace(
            MAX_BAD,
            text="Fail if more than this percentage, rounded up to whole files, is rejected",
            group="",
        ),
    ),
    plan="untar.plan_untar",
)
VAL_TREE = Command(
    name="val-tree",
    help="Move validation images to class folders.",
    details="The class of each image comes from a file, or from its bounding boxes.",
    options=(
        Option("root", "ROOT", "Folder of the validation images", parse=path),
        Option(
            "synsets",
            "SYNSETS",
            "File with one class per line, in order of the images' names; or lines 'IMAGE CLASS'; "
            "or a folder of ILSVRC's XML files",
            parse=path,
        ),
        Option(
            "classes",
            "N",
            "Fail unless the file names this many classes; 0 accepts any number",
            default="1000",
            parse=integer(0),
        ),
        Option(
            "train",
            "DIR",
            "Training tree that must have the same classes",
            default="",
            parse=path_or_none,
            empty="none",
        ),
    ),
    plan="trees.plan_val_tree",
)
FILTER = Command(
    name="filter",
    help="Move classes with too few images to ROOT_filtered.",
    options=(
        TREE,
        MIN_IMAGES,
        Option(
            "more-than",
            "",
            "Also move classes with exactly --min-images images, as the tutorial's script does",
            default=False,
            group=MIN_IMAGES.group,
        ),
    ),
    plan="trees.plan_filter",
)
SPLIT = Command(
    name="split",
    help="Move random images of each class to ROOT_val.",
    details=(
        "The same seed and file names give the same choice. For a folder that data.prepare made, "
        "prints its split and moves nothing."
    ),
    options=(
        TREE,
        Option("images", "N", "Images to move per class", default="50", parse=integer(1)),
        SEED,
        SMALL,
        Option("undo", "", "Move all images of ROOT_val back to ROOT", default=False),
    ),
    plan="trees.plan_split",
)
LIST = Command(
    name="list",
    help="List the images of a labeled tree in .lst files.",
    details="Writes one list per shard, shuffled as upstream's im2rec.py does, and a labels file.",
    options=(
        Option(
            "prefix",
            "PREFIX",
            "Prefix of the lists: PREFIX.lst, or PREFIX_0.lst ...",
            parse=tree_root,
        ),
        replace(TREE, parse=path),
        CHUNKS,
        IMAGES_PER_SHARD,
        replace(
            LABELS,
            text="Labels file of the training tree, which gives a validation tree the same labels",
        ),
        replace(
            BOXES,
            text="Folder of ILSVRC's XML files: list the images with boxes, as detection records",
        ),
        Option("background", "", "Reserve label 0 for a class without images", default=False),
        Option("no-shuffle", "", "List the images in order of their names", default=False),
        Option(
            "exts",
            "LIST",
            "Extensions of image files, separated by commas",
            default=",".join(SUFFIXES),
            parse=suffixes,
        ),
    ),
    plan="list.plan_list",
)
PACK = Command(
    name="pack",
    help="Pack images into RecordIO shards.",
    details="Makes the image lists first if there are none.",
    example="shards/train photos --chunks 4",
    options=(
        Option(
            "prefix",
            "PREFIX",
            "Prefix of the lists: PREFIX.lst, or PREFIX_0.lst ...",
            parse=tree_root,
        ),
        Option(
            "root",
            "ROOT",
            "Folder that the paths in the lists are relative to; a tar with --from-tar",
            parse=path,
        ),
        Option(
            "from-tar", "", "Read ROOT as a tar of class tars without unpacking it", default=False
        ),
        Option(
            "out",
            "DIR",
            "Folder of the shards",
            default="",
            parse=path_or_none,
            empty="folder of the lists",
        ),
        CHUNKS,
        IMAGES_PER_SHARD,
        *ENCODING,
        PROCESSES,
        MAX_BAD,
    ),
    plan="pack.plan_pack",
)
VERIFY = Command(
    name="verify",
    help="Verify shards: index, counts, images and checksums.",
    details="Reads every record, decodes every image, and compares both with the manifest.",
    example="data/sample_rec",
    options=(PREPARED, PROCESSES),
    plan="shards.plan_verify",
)
SHARD = Command(
    name="shard",
    help="Link one worker's share of the shards into a folder.",
    details="The links are in DIR/worker_INDEX_of_TOTAL.",
    options=(
        Option("dir", "DIR", "Folder of shards: .rec, or NAME-00000-of-01024", parse=path),
        Option("total", "TOTAL", "Number of workers", parse=integer(1)),
        Option("index", "INDEX", "Index of the worker, from 0", parse=integer(0)),
        replace(
            SET,
            text="First part of the shards' names, if the folder has several sets",
            default="",
            empty="train, or the only one",
        ),
    ),
    plan="shards.plan_shard",
)
TO_TFRECORD = Command(
    name="to-tfrecord",
    help="Convert RecordIO shards to ImageNet TFRecords.",
    details=(
        "The TFRecord files have the fields of the usual ImageNet conversion. Boxes come from "
        "detection records, or from --boxes."
    ),
    options=(
        SHARDS,
        OUT,
        replace(SET, text="First part of the file names: train or validation"),
        LABELS,
        BOXES,
        Option(
            "lists",
            "DIR",
            "With --boxes: folder of the lists, which name the images of the shards",
            default="",
            parse=path_or_none,
            empty="folder of the shards, or lists/ of a prepared folder",
        ),
        _OFFSET,
    ),
    plan="tfrecord.plan_to_tfrecord",
)
FROM_TFRECORD = Command(
    name="from-tfrecord",
    help="Convert ImageNet TFRecords to RecordIO shards.",
    details="Checks the CRC of every record.",
    options=(
        replace(SHARDS, text="A TFRecord file, or a folder of them"),
        OUT,
        SET,
        Option(
            "boxes",
            "",
            "Write detection records of the images that have bounding boxes; omit the others",
            default=False,
        ),
        _OFFSET,
    ),
    plan="tfrecord.plan_from_tfrecord",
)
TO_WEBDATASET = Command(
    name="to-webdataset",
    help="Convert RecordIO shards to WebDataset's tar shards.",
    details="Each image is a sample KEY.jpg and KEY.cls; several labels are in KEY.json.",
    options=(SHARDS, OUT, SET),
    plan="webdataset.plan_to_webdataset",
)
FROM_WEBDATASET = Command(
    name="from-webdataset",
    help="Convert WebDataset's tar shards to RecordIO shards.",
    details="Each sample needs one image and a label: KEY.cls, or 'label' or 'labels' in KEY.json.",
    options=(replace(SHARDS, text="A tar file, or a folder of them"), OUT, SET),
    plan="webdataset.plan_from_webdataset",
)
SAMPLE = Command(
    name="sample",
    help="Create a small labeled tree of sample images.",
    details="Cuts the images from real photographs; --shape copies the shape of a known data set.",
    example="data/sample --images-per-class 20",
    options=(
        Option("root", "ROOT", "Folder to create", parse=tree_root),
        Option(
            "shape",
            "SHAPE",
            f"Shape of the data set: {', '.join(_SHAPES)}",
            default="photographs",
            parse=choice(*_SHAPES),
        ),
        Option(
            "images-per-class",
            "N",
            "Images per class; 0 makes as many as the data set has (photographs: 70)",
            default="0",
            parse=integer(0),
        ),
        Option(
            "percent",
            "PERCENT",
            "Share of the data set's image counts; 0 is 100 %, for imagenet 1 %",
            default="0",
            parse=percentage,
            unit="%",
        ),
        replace(SEED, text="Seed of the images"),
    ),
    plan="sample.plan_sample",
)
PREPARE = Command(
    name="prepare",
    help="Turn a labeled tree or a tar into verified shards.",
    details=(
        "Splits the images into training and validation, packs both into DIR_rec and verifies "
        "every shard. Writes a sweep file there. Leaves DIR unchanged, unless --move is given."
    ),
    example="data/photos --val-per-class 20 --train-shards 4",
    options=(
        Option(
            "dir",
            "DIR",
            "Labeled tree (one folder of images per class), or a tar of class tars",
            parse=tree_root,
        ),
        Option(
            "root",
            "DIR",
            "Folder to unpack a tar to",
            default="",
            empty="the tar's name without .tar",
        ),
        Option(
            "out",
            "DIR",
            "Folder of the shards",
            default="",
            parse=path_or_none,
            empty="DIR_rec",
            group=TRAIN_SHARDS.group,
        ),
        Option(
            "move",
            "",
            "Move validation images to DIR_val and small classes to DIR_filtered; 'fab data.split "
            "DIR --undo' moves the former back",
            default=False,
        ),
        Option(
            "image-shape",
            "SHAPE",
            "Input of the network, for the sweep file; images that are smaller are reported",
            default="3,224,224",
            parse=parse_shape,
        ),
        Option(
            "val-per-class",
            "N",
            "Use this many images of each class for validation; 0 uses those in DIR_val",
            default="50",
            parse=integer(0),
        ),
        replace(SEED, text="Seed of the random choice of validation images"),
        replace(
            MIN_IMAGES,
            text="Leave out classes with fewer images; 0 keeps all",
            default="0",
            parse=integer(0),
        ),
        SMALL,
        TRAIN_SHARDS,
        VAL_SHARDS,
        *ENCODING,
        PROCESSES,
        MAX_BAD,
    ),
    plan="prepare.plan_prepare",
)
INFO = Command(
    name="info",
    help="Print counts, labels, sizes and recipe of shards.",
    options=(PREPARED,),
    plan="shards.plan_info",
)
JOIN_INDEX = Command(
    name="join-index",
    help="Write one index for several shards.",
    details="For readers that accept one index only (DALI, path_imgidx).",
    options=(
        SHARDS,
        Option("index", "INDEX", "Index file to write, such as all.idx", parse=path),
    ),
    plan="shards.plan_join_index",
)
COMMANDS = {
    one.name: one
    for one in (
        FETCH,
        UPLOAD,
        PARTITION,
        UNTAR,
        VAL_TREE,
        FILTER,
        SPLIT,
        LIST,
        PACK,
        VERIFY,
        SHARD,
        TO_TFRECORD,
        FROM_TFRECORD,
        TO_WEBDATASET,
        FROM_WEBDATASET,
        SAMPLE,
        PREPARE,
        INFO,
        JOIN_INDEX,
    )
}
