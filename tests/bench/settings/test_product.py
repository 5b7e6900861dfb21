"""Any field of a sweep can be a list; variants and exclusions shape the product."""

import hashlib
import json
from pathlib import Path

import pytest

from bench.errors import SpecError
from bench.settings.point_names import chosen, point_names, point_words, varying
from bench.sweep import load_sweep
from bench.trial import Trial

pytestmark = pytest.mark.pythons

TOP = "engine = 'fake'\nnetwork = 'tiny'\nbatch_per_device = 8\n"
# Of the keys of shipped sweeps before every field could be a list; stored results refer to them.
KEYS = {
    "smoke": (3, "31323b618e6da30b"),
    "gate": (3, "ad1c3ece0dc741f6"),
    "demo": (14, "badd5b0e0239d983"),
    "seed": (27, "28418611ffd6a8c8"),
}


def trials(tmp_path: Path, text: str) -> tuple[Trial, ...]:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_sweep(str(path)).trials


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        trials(tmp_path, text)
    assert "\n" not in str(caught.value)
    return str(caught.value).partition("mine.toml")[2]


@pytest.mark.parametrize("name", KEYS)
def test_shipped_sweeps_keep_their_keys_and_order(name: str) -> None:
    keys = [trial.key for trial in load_sweep(name).trials]
    assert (len(keys), hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]) == KEYS[name]


def test_every_scalar_field_can_be_a_list_and_devices_vary_fastest(tmp_path: Path) -> None:
    lists = "dtype = ['float32', 'bfloat16']\nlr = [0.1, 0.2, 0.4]\n"
    found = trials(tmp_path, f"{TOP}{lists}[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2]\n")
    assert [(t.training.dtype, t.training.lr, t.layout.devices) for t in found] == [
        (dtype, lr, devices)
        for dtype in ("float32", "bfloat16")
        for lr in (0.1, 0.2, 0.4)
        for devices in (1, 2)
    ]
    assert len({trial.key for trial in found}) == 12


def test_a_field_that_holds_a_list_varies_by_a_list_of_lists(tmp_path: Path) -> None:
    (one,) = trials(tmp_path, f"{TOP}env = ['A=1', 'B=2']\nimage_shape = [3, 32, 32]\n[[points]]\n")
    assert (one.layout.env, one.model.image_shape) == (("A=1", "B=2"), (3, 32, 32))
    found = trials(tmp_path, f"{TOP}env = [[], ['A=1', 'B=2']]\n[[points]]\n")
    assert [trial.layout.env for trial in found] == [(), ("A=1", "B=2")]


def test_a_table_by_network_can_hold_lists(tmp_path: Path) -> None:
    text = "engine = 'fake'\n[[points]]\nnetwork = ['alexnet', 'tiny']\n"
    text += "batch_per_device = { alexnet = [256, 512], tiny = 8 }\n"
    found = trials(tmp_path, text)
    assert [(t.label, t.training.batch_per_device) for t in found] == [
        ("alexnet", 256),
        ("alexnet", 512),
        ("tiny", 8),
    ]


def test_variants_are_merged_over_every_point(tmp_path: Path) -> None:
    variants = "[[variants]]\n[[variants]]\ngc_type = '2bit'\ngc_threshold = [0.5, 1.0]\nlr = 0.2\n"
    points = "[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2]\nlr = 0.1\n"
    found = trials(tmp_path, f"{TOP}{variants}{points}")
    assert [(t.training.gc_type, t.training.gc_threshold, t.training.lr) for t in found[::2]] == [
        ("none", 0.5, 0.1),
        ("2bit", 0.5, 0.2),
        ("2bit", 1.0, 0.2),
    ]


def test_an_exclusion_leaves_out_what_the_point_could_not_be(tmp_path: Path) -> None:
    lists = "exclude = [{ gc_type = '2bit', kvstore = ['local'] }]\ngc_type = ['none', '2bit']\n"
    point = "[[points]]\nkvstore = ['local', 'dist_sync']\n"
    found = trials(tmp_path, TOP + lists + point)
    assert [(t.layout.kvstore, t.training.gc_type) for t in found] == [
        ("local", "none"),
        ("dist_sync", "none"),
        ("dist_sync", "2bit"),
    ]
    assert "gc_type" in error(tmp_path, TOP + lists.partition("\n")[2] + point)


@pytest.mark.parametrize(
    ("excluded", "left"),
    [
        ("network = 'resnet-50'", ["resnet-18", "alexnet"]),
        ("network = 'resnet'", ["alexnet"]),
        ("network = 'resnet', num_layers = 18", ["resnet-50", "alexnet"]),
        ("seed = 0, network = 'alexnet'", ["resnet-18", "resnet-50"]),
        ("devices_per_worker = 1, network = 'alexnet'", ["resnet-18", "resnet-50"]),
    ],
)
def test_exclusions_know_network_names_defaults_and_derived_values(
    tmp_path: Path, excluded: str, left: list[str]
) -> None:
    networks = "network = ['resnet-18', 'resnet-50', 'alexnet']\nbatch_per_device = 8\n"
    text = f"engine = 'fake'\nexclude = [{{ {excluded} }}]\n[[points]]\n{networks}"
    assert [trial.label for trial in trials(tmp_path, text)] == left


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "exclude = [{ lr = 0.1 }, { lr = 9 }]\nlr = [0.1, 0.2]\n[[points]]\n",
            ":4: exclude 2: matches no combination. Remove it",
        ),
        ("exclude = [{ lrr = 9 }]\n[[points]]\n", ":4: exclude 1: expected fields of points, got"),
        ("exclude = [{}]\n[[points]]\n", ":4: exclude 1: expected fields of points, got an empty"),
        ("exclude = [{ lr = 'x' }]\n[[points]]\n", ":4: exclude 1: lr: expected a number, got 'x'"),
        ("exclude = { lr = 1 }\n[[points]]\n", ":4: exclude: expected a list of tables"),
        (
            "exclude = [{ seed = 0 }]\n[[points]]\n",
            ":5: point 1: exclude: every combination of this point is excluded",
        ),
        ("\n[[points]]\nlr = [0.1, 0.1]\n", ":5: point 1: expected each combination once, got"),
        ("[[points]]\nlr = []\n", ":4: point 1: lr: expected at least one value, got an empty"),
        (
            "[[variants]]\n[[variants]]\nlr = 0.01\n[[points]]\n",
            ":7: point 1: expected each combination once, got 'tiny local x1' 2 times. Remove",
        ),
        ("[[variants]]\nlrr = 1\n[[points]]\n", ":4: variant 1: unknown field 'lrr'"),
        ("variants = []\n[[points]]\n", ": variants: expected at least one [[variants]] table"),
        ("[[points]]\nexclude = []\n", "field 'exclude': expected the top of the file"),
        (
            f"[[variants]]\n[[variants]]\nseed = 1\n[[points]]\nlr = {[*range(1, 201)]}\n"
            f"momentum = {[*range(1, 31)]}\n",
            ":7: point 1: points: expected 10000 or fewer, got 12000 (variants 2 x lr 200 x "
            "momentum 30). Shorten a list",
        ),
        (f"[[points]]\nenv = [{'[],' * 10001}]\n", "got 10001 (env 10001)"),
    ],
)
def test_a_mistake_in_a_product_is_one_line_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    assert said in error(tmp_path, TOP + text)


def test_options_and_clusters_may_make_points_of_a_product_equal(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        f"{TOP}exclude = [{{ seed = 1 }}]\nwindows = [1, 2]\nseed = [1, 2]\n[[points]]\n"
    )
    assert len(load_sweep(str(path), fields={"windows": 3, "seed": 2}).trials) == 1
    given = {"devices_per_host": 2}
    path.write_text(f"{TOP}lr = [0.1, 0.2]\n[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 8]\n")
    found = load_sweep(str(path), hosts=2, fields=given).trials
    assert [(t.training.lr, t.layout.devices) for t in found] == [
        (lr, devices) for lr in (0.1, 0.2) for devices in (1, 2, 4)
    ]


def test_names_and_words_of_points_hold_what_varies(tmp_path: Path) -> None:
    text = "batch_per_device = [8, 16]\nlr = [0.1, 0.2]\n[[points]]\n"
    found = trials(tmp_path, TOP.replace("batch_per_device = 8\n", "") + text)
    assert varying(found) == ["batch_per_device", "lr"]
    assert point_names(found)[1] == "tiny local x1 (batch_per_device 8, lr 0.2)"
    assert point_words(found)[1] == "tiny local x1 batch_per_device=8 lr=0.2"
    assert [chosen(found, words) for words in point_words(found)] == [[one] for one in found]
    assert chosen(found, "lr=0.20") == [found[1], found[3]]
    with pytest.raises(SpecError, match=r"got 'lr=x'\. The points: tiny local x1 batch_per_dev"):
        chosen(found, "lr=x")


def test_points_with_long_values_or_spaces_are_selected_by_their_keys(tmp_path: Path) -> None:
    code, long = "import time; print('images/sec: {devices}', \"a\")", "x" * 50
    commands = [["python3", "-c", code], *(["prog", f"{long}{n}{long}"] for n in (1, 2))]
    text = (
        "engine = 'command'\nformat = 'horovod-synthetic'\nnetwork = 'tiny'\n"
        "batch_per_device = 8\ndevices = 2\n"
    )
    text += "".join(f"[[points]]\ncommand = {json.dumps(one)}\n" for one in commands)
    found = trials(tmp_path, text)
    words, names = point_words(found), point_names(found)
    assert [chosen(found, one) for one in words] == [[one] for one in found]
    assert all(f"key={trial.key}" in one for trial, one in zip(found, words, strict=True))
    assert len(set(names)) == 3
    assert max(map(len, names)) < 110
