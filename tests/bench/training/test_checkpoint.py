"""Checkpoints of the trainer and of Module: validated, and trained further."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import fine_tune, predict, train_imagenet
from bench.data import input_format
from bench.errors import SpecError
from bench.score import metrics, score
from bench.training.mxnet.backend import train
from bench.training.mxnet.worker import build_worker
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from bench.training.validation import score_outputs
from tests.support.paths import ROOT
from tests.support.repeats import slow
from tests.support.training.workers import values, weights

pytestmark = pytest.mark.mxnet
SHAPE = "--image-shape=3,32,32"
MEAN = "--rgb-mean=123.68,116.779,103.939"  # of training, which score does not know


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory, photographs: Path) -> tuple[str, float]:
    """Return a checkpoint of the trainer and the accuracy that it reported."""
    prefix = str(tmp_path_factory.mktemp("own") / "m")
    words = [f"--data-train={photographs / 'train'}", f"--data-val={photographs / 'val'}", SHAPE]
    words += [
        "--network=tiny",
        "--num-classes=10",
        "--batch-size=24",
        "--num-epochs=3",
        "--lr=0.02",
    ]
    summary = train(parse([*words, "--rgb-std=58,57,57", f"--model-prefix={prefix}"]))
    assert summary.accuracy is not None
    return prefix, summary.accuracy


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a checkpoint as upstream's Module saves it, with its loss."""
    prefix = str(tmp_path_factory.mktemp("modules") / "m")
    data = mx.sym.var("data")
    hidden = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=8, name="fc1")
    out = mx.sym.FullyConnected(mx.sym.Activation(hidden, act_type="relu"), num_hidden=10)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(out, name="softmax"))
    module.bind([("data", (4, 3, 32, 32))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(prefix, 4)
    return prefix


def test_a_checkpoint_scores_what_its_training_said(
    own: tuple[str, float], photographs: Path
) -> None:
    prefix, accuracy = own
    words = [f"--model={prefix}", "--load-epoch=3", f"--data-val={photographs / 'val'}", SHAPE]
    # 60 images: the last batch of 16 is not full.
    found = score(
        [*words, MEAN, "--rgb-std=58,57,57", "--batch-size=16", "--metrics=acc,top_k_accuracy_9,ce"]
    )
    assert found["acc"] == pytest.approx(accuracy)
    assert accuracy <= found["top_k_accuracy_9"] <= 1
    assert found["ce"] > 0


def test_a_module_is_scored_as_a_program(modules: str, photographs: Path) -> None:
    words = [f"--model={modules}", "--load-epoch=4", f"--data-val={photographs / 'val'}", SHAPE]
    done = subprocess.run(
        [sys.executable, "-m", "bench.score", *words, "--metrics=acc,ce,top_k_accuracy_10"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split() for line in done.stdout.splitlines())
    assert set(said) == {"acc", "ce", "top_k_accuracy_10"}
    assert said["top_k_accuracy_10"] == "1.0000"


def test_a_checkpoint_is_scored_as_it_was_trained(
    own: tuple[str, float], photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shape, mean, std, epoch and metrics are known from the checkpoint."""
    prefix, accuracy = own
    data = [f"--model={prefix}", f"--data-val={photographs / 'val'}"]
    found = score(data)
    assert found["acc"] == pytest.approx(accuracy)
    assert list(found) == ["acc", "top_k_accuracy_5"]
    for option, said in (
        ("--image-shape=3,64,64", "--image-shape: expected 3,32,32, as in "),
        ("--rgb-mean=0,0,0", "--rgb-mean: expected 123.68,116.779,103.939, as in "),
        ("--rgb-std=1,1,1", "--rgb-std: expected 58,57,57, as in "),
    ):
        with pytest.raises(SpecError, match=said):
            score([*data, option])
    options = fine_tune.parse(
        [f"--pretrained-model={prefix}", f"--data-train={photographs / 'train'}"]
    )
    assert (options.num_classes, options.image_shape) == (10, (3, 32, 32))
    assert (options.pretrained_epoch, options.rgb_std) == (3, (58, 57, 57))


def test_predictions_are_as_accurate_as_the_score(
    own: tuple[str, float],
    photographs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = (photographs / "lists" / "val.lst").read_text().splitlines()
    images = [photographs.with_name("s") / line.split("\t")[2] for line in lines]
    found = list(predict.predictions([*map(str, images), f"--model-prefix={own[0]}"]))
    assert all(isinstance(one, predict.Prediction) and len(one.classes) == 5 for one in found)
    hits = [one.classes[0][0] == path.parent.name for one, path in zip(found, images, strict=True)]
    assert sum(hits) / len(hits) == pytest.approx(own[1])
    folder = str(images[0].parent)
    words = ["predict", "nowhere.jpg", str(images[0]), __file__, folder, f"--model={own[0]}"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as exit_:
        predict.main()
    said = capsys.readouterr()
    assert exit_.value.code == 2
    assert [line.split()[0] for line in said.out.splitlines()][:2] == ["image", str(images[0])]
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert [line.partition(": ")[2].partition(":")[0] for line in errors] == [
        "nowhere.jpg",
        __file__,
        folder,
    ]
    assert errors[-1].endswith(
        f"expected an image, got a folder. Name its images, such as {folder}/*.jpg"
    )


def test_an_invalid_description_of_a_checkpoint_is_one_line(tmp_path: Path) -> None:
    path = input_format.path_of(str(tmp_path / "m"))
    for text in ("", "[]", "{}", '{"image_shape": [3, 0, 1], "rgb_mean": 1, "rgb_std": null}'):
        path.write_text(text)
        with pytest.raises(SpecError, match=r"m-mxscale\.json: expected the input of a checkpoint"):
            input_format.read(str(tmp_path / "m"))


def test_training_continues_with_the_input_of_its_checkpoint(
    photographs: Path, tmp_path: Path
) -> None:
    prefix, data = str(tmp_path / "m"), f"--data-train={photographs / 'train'}"
    first = train_imagenet.parse([data, "--rgb-mean=1,2,3", "--image-shape=3,32,32"])
    input_format.write(prefix, input_format.described(first))
    words = [data, f"--model-prefix={prefix}", "--load-epoch=1", "--num-epochs=2"]
    found = train_imagenet.parse(words)
    assert (found.rgb_mean, found.image_shape) == ((1.0, 2.0, 3.0), (3, 32, 32))
    input_format.check_prefix(prefix, input_format.described(found))
    other = dataclasses.replace(input_format.described(found), rgb_std=(9.0, 9.0, 9.0))
    with pytest.raises(SpecError, match="belongs to checkpoints with --rgb-std 1,1,1, not 9,9,9"):
        input_format.check_prefix(prefix, other)
    with pytest.raises(SpecError, match=r"--rgb-mean: expected 1,2,3, as in .*m-mxscale.json"):
        train_imagenet.parse([*words, "--rgb-mean=0,0,0"])


def test_training_continues_with_the_network_of_its_checkpoint(
    photographs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix, data = str(tmp_path / "m"), f"--data-train={photographs / 'train'}"
    first = ["--network=resnet", "--num-layers=20", "--image-shape=3,28,28"]
    input_format.write(prefix, input_format.described(train_imagenet.parse([data, *first])))
    words = [data, f"--model-prefix={prefix}", "--load-epoch=1"]
    found = train_imagenet.parse(words)
    assert (found.network, found.num_layers, found.image_shape) == ("resnet", 20, (3, 28, 28))
    assert train_imagenet.parse([*words, "--network=resnet-20"]).num_layers == 20
    for other in (["--network=resnet-32"], ["--num-layers=32"]):
        with pytest.raises(
            SpecError, match=r"--network: expected resnet-20, as in .*, got resnet-32"
        ):
            train_imagenet.parse([*words, *other])
    Path(f"{prefix}-symbol.json").write_text("{}")
    input_format.path_of(prefix).unlink()
    with pytest.raises(SpecError) as error:
        train_imagenet.parse([*words, "--network=resnet-20"])
    assert str(error.value) == (
        f"--image-shape: expected that of the training, got none; {prefix}-mxscale.json is "
        "missing. Give it"
    )
    assert train_imagenet.parse([*words, *first]).image_shape == (3, 28, 28)
    assert "using --rgb-mean 123.68,116.779,103.939, --rgb-std 1,1,1. Give" in (
        capsys.readouterr().err
    )


def test_classes_and_shape_are_those_of_the_shards(photographs: Path, tmp_path: Path) -> None:
    data = f"--data-train={photographs / 'train'}"
    found = train_imagenet.parse([data, "--network=tiny"])
    assert (found.num_classes, found.image_shape) == (10, (3, 64, 64))
    given = [data, "--network=tiny", "--num-classes=12", "--image-shape=3,48,48"]
    found = train_imagenet.parse(given)
    assert (found.num_classes, found.image_shape) == (12, (3, 48, 48))
    assert train_imagenet.parse([data, "--network=inception-v3"]).image_shape == (3, 256, 256)
    with pytest.raises(SpecError, match="--num-classes: expected 10 or more, the classes of"):
        train_imagenet.parse([data, "--num-classes=9"])
    with pytest.raises(
        SpecError, match="--image-shape: expected at most 256 x 256 pixels, the short"
    ):
        train_imagenet.parse([data, "--image-shape=3,299,299"])
    enlarging = ["--random-resized-crop=1", "--image-shape=3,299,299"]
    assert train_imagenet.parse([data, *enlarging]).image_shape == (3, 299, 299)
    for path in (photographs / "train").glob("*.rec"):  # shards of another program
        shutil.copy(path, tmp_path)
    (tmp_path / "labels.txt").write_text("0\tcat\n")
    assert train_imagenet.parse([f"--data-train={tmp_path}"]).num_classes == 1000


def test_shards_of_other_classes_are_rejected(
    own: tuple[str, float],
    photographs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Labels are numbers, so another data set would train and score without an error."""
    other = tmp_path / "other"
    shutil.copytree(photographs, other)
    text = (photographs / "labels.txt").read_text()
    (other / "labels.txt").write_text(re.sub(r"^0\t.*", "0\tother", text, flags=re.MULTILINE))
    train, val = (f"--data-{part}={photographs / part}" for part in ("train", "val"))
    other_train, other_val = (f"--data-{part}={other / part}" for part in ("train", "val"))
    words = ["--network=tiny", "--num-epochs=4"]
    again = [*words, f"--model-prefix={own[0]}", "--load-epoch=3"]
    named = r"expected class '\w+' for label 0, as in {}, got 'other' in .*other/labels\.txt\. "
    with pytest.raises(SpecError, match="--data-val: " + named.format(r".*s_rec/labels\.txt")):
        train_imagenet.parse([train, other_val, *words])
    prefix = named.format(f"{own[0]}-mxscale\\.json")
    with pytest.raises(SpecError, match=f"--data-train: {prefix}For other classes, run 'python"):
        train_imagenet.parse([other_train, other_val, *again])
    with pytest.raises(SpecError, match=f"--data-val: {prefix}Give shards of the same classes"):
        score([f"--model={own[0]}", other_val])
    assert train_imagenet.parse([train, val, *again]).load_epoch == 3
    assert capsys.readouterr().err == ""
    for path in (other / "val").glob("*.json"):
        path.write_text(path.read_text().replace('"short_edge": 256', '"short_edge": 64'))
    size = "has images with a short edge of 64, {} has 256; the accuracy of crops differs."
    with pytest.raises(SpecError):
        score([f"--model={own[0]}", other_val, "--metrics=top_k_accuracy_11"])
    (other / "labels.txt").unlink()  # shards without names are not compared
    with pytest.raises(SpecError):
        score([f"--model={own[0]}", other_val, "--metrics=top_k_accuracy_11"])
    assert size.format(f"{own[0]}-mxscale.json") in capsys.readouterr().err
    assert train_imagenet.parse([train, other_val, *words]).data_val == str(other / "val")
    assert size.format(photographs / "train") in capsys.readouterr().err
    assert train_imagenet.parse([other_train, *words]).num_classes == 1000
    assert "has no labels.txt; training 1000 classes. Give the" in capsys.readouterr().err


def test_an_interrupted_training_names_the_epoch_to_continue_from(
    own: tuple[str, float],
    photographs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def ended(*words: str) -> str:
        data = f"--data-train={photographs / 'train'}"
        monkeypatch.setattr(sys, "argv", ["train", data, "--network=tiny", *words])
        with pytest.raises(SystemExit):
            train_imagenet.main()
        return capsys.readouterr().err

    monkeypatch.setattr(train_imagenet, "announce_rendezvous", interrupted)
    monkeypatch.setattr("os._exit", sys.exit)
    prefix = f"--model-prefix={own[0]}"
    assert ended(prefix).endswith("interrupted; continue with the same command, --load-epoch 3\n")
    assert ended(prefix, "--load-epoch=3").endswith("interrupted\n")
    assert ended() == "interrupted\n"


def tuned(prefix: str, epoch: int, photographs: Path, *words: str) -> list[str]:
    data = [f"--data-train={photographs / 'train'}", f"--data-val={photographs / 'val'}", SHAPE]
    given = [f"--pretrained-model={prefix}", f"--load-epoch={epoch}", "--num-classes=10"]
    return [*given, *data, "--kv-store=local", "--batch-size=24", "--rgb-std=58,57,57", *words]


def test_fine_tuning_keeps_the_layers_of_a_checkpoint(
    own: tuple[str, float], modules: str, photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix, epoch in ((own[0], 3), (modules, 4)):
        net = build_worker(
            fine_tune.parse(tuned(prefix, epoch, photographs, "--num-classes=17"))
        ).net
        assert f"starts from {prefix}-{epoch:04d}.params" in capsys.readouterr().err
        saved = mx.nd.load(f"{prefix}-{epoch:04d}.params")
        kept = net.collect_params()
        assert net(mx.nd.zeros((2, 3, 32, 32))).shape == (2, 17)
        arrays, same = values(net), [name for name in kept if f"arg:{name}" in saved]
        assert len(same) == len(kept.keys()) - 2 == len(saved) - 2
        for name in same:
            np.testing.assert_array_equal(arrays[name], saved[f"arg:{name}"].asnumpy())


def test_a_fine_tuned_network_learns_and_is_a_checkpoint_again(
    own: tuple[str, float], photographs: Path, tmp_path: Path
) -> None:
    prefix = str(tmp_path / "t")
    words = tuned(own[0], 3, photographs, "--num-epochs=4", "--lr=0.02", "--mom=0.9")
    summary = train(fine_tune.parse([*words, f"--model-prefix={prefix}"]))
    assert summary.accuracy is not None
    assert summary.accuracy > 0.3
    again = [f"--model={prefix}", "--load-epoch=4", f"--data-val={photographs / 'val'}", SHAPE]
    assert score([*again, MEAN, "--rgb-std=58,57,57"])["acc"] == pytest.approx(summary.accuracy)
    build_worker(fine_tune.parse(tuned(prefix, 4, photographs)))


def test_a_fine_tuning_continues_as_if_it_had_not_been_interrupted(
    own: tuple[str, float], photographs: Path, tmp_path: Path
) -> None:
    data = [f"--data-train={photographs / 'train'}", "--kv-store=local", "--batch-size=24"]

    def tune(prefix: str, *words: str) -> None:
        train(fine_tune.parse([*data, f"--model-prefix={tmp_path / prefix}", *words]))

    begin = [f"--pretrained-model={own[0]}", "--mom=0.9"]
    tune("whole", *begin, "--num-epochs=2")
    tune("part", *begin, "--num-epochs=1")
    tune("part", "--mom=0.9", "--load-epoch=1", "--num-epochs=2")
    whole = weights(tmp_path / "whole", 2)
    assert "arg:fine_tuned_weight" in whole
    assert all((weights(tmp_path / "part", 2)[name] == whole[name]).all() for name in whole)


def test_fine_tuning_and_training_do_not_continue_each_other(tmp_path: Path) -> None:
    (tmp_path / "plain-symbol.json").write_text('{"nodes": [{"name": "dense0_weight"}]}')
    (tmp_path / "tuned-symbol.json").write_text('{"nodes": [{"name": "fine_tuned_weight"}]}')
    plain, tuned = str(tmp_path / "plain"), str(tmp_path / "tuned")
    data = "--data-train=x"
    with pytest.raises(SpecError, match=r"tuned: was fine-tuned\. Continue with 'python -m"):
        train_imagenet.parse([data, f"--model-prefix={tuned}", "--load-epoch=1"])
    for words, said in (
        ([f"--model-prefix={tuned}"], "--pretrained-model: expected the prefix of a checkpoint"),
        (["--load-epoch=1"], "--pretrained-model: expected the prefix of a checkpoint, got none"),
        (
            [f"--model-prefix={plain}", "--load-epoch=1"],
            f"was not fine-tuned, .* Give --pretrained-model {plain} and another --model-prefix",
        ),
        (
            [f"--model-prefix={tuned}", "--load-epoch=1", "--layer-before-fullc=x"],
            "--layer-before-fullc: the checkpoint to continue determines it",
        ),
        (
            [f"--pretrained-model={plain}", f"--model-prefix={plain}"],
            "would replace the checkpoints of --pretrained-model. Name another prefix$",
        ),
        (
            [f"--pretrained-model={tuned}", f"--model-prefix={tuned}"],
            "or leave out --pretrained-model to continue its fine-tuning",
        ),
        (["--pretrained-model=p", "--num-layers", "18"], "--num-layers: the checkpoint determines"),
        (["--pretrained-model=p", "--auto-batch"], "--auto-batch: .* Give --batch-size"),
        (["--pretrained-model=p", "--engine=torch"], "--engine: MXNet alone fine-tunes. Leave it"),
    ):
        with pytest.raises(SpecError, match=said):
            fine_tune.parse([data, *words])
    found = fine_tune.parse([data, f"--model-prefix={tuned}", "--load-epoch=3"])
    assert (found.pretrained, found.pretrained_epoch, found.load_epoch) == (tuned, 3, 3)


def test_the_help_of_fine_tuning_names_the_meaning_of_its_epochs() -> None:
    page = " ".join(fine_tune.parser().format_help().split())
    assert "Epoch of the checkpoint to start from, or to continue [the newest" in page
    assert "those of --pretrained-model do not count [30]" in page
    assert page.count("--load-epoch N") == page.count("--num-epochs N") == 1
    assert "--num-layers N" not in page


def test_a_checkpoint_without_description_has_a_note_on_the_input_in_use(
    own: tuple[str, float],
    photographs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("symbol.json", "0003.params"):
        shutil.copy(f"{own[0]}-{name}", tmp_path / f"m-{name}")
    prefix = str(tmp_path / "m")
    image = next((photographs.parent / "s").rglob("*.jpg"))
    usual = "(the default of bench.train_imagenet is --rgb-mean 123.68,116.779,103.939)"
    used = f"m-mxscale.json: no such file; using --rgb-mean 0,0,0, --rgb-std 1,1,1 {usual}. Give"
    list(predict.predictions([str(image), f"--model-prefix={prefix}", SHAPE]))
    assert used in capsys.readouterr().err
    score([f"--model={prefix}", f"--data-val={photographs / 'val'}", SHAPE])
    assert used in capsys.readouterr().err
    score(
        [f"--model={prefix}", f"--data-val={photographs / 'val'}", SHAPE, MEAN, "--rgb-std=1,1,1"]
    )
    assert "no such file" not in capsys.readouterr().err


def test_what_cannot_be_is_one_line(
    own: tuple[str, float], modules: str, photographs: Path, tmp_path: Path
) -> None:
    def of(prefix: str, *words: str, shape: str = SHAPE) -> list[str]:
        return [f"--model={prefix}", f"--data-val={photographs / 'val'}", shape, *words]

    (tmp_path / "bad-symbol.json").write_text("{")
    shutil.copy(f"{own[0]}-symbol.json", tmp_path / "cut-symbol.json")
    whole = Path(f"{own[0]}-0003.params").read_bytes()
    (tmp_path / "cut-0003.params").write_bytes(whole[:1000])
    for words, said in (
        (of("nowhere"), "nowhere-symbol.json: expected a checkpoint's network (No such file"),
        (of("a/m-0003.params"), "Give the prefix a/m"),
        (of(own[0], "--load-epoch=9"), "there: m-0001.params, m-0002.params, m-0003.params"),
        (of(str(tmp_path / "cut"), "--load-epoch=3"), "got 1000 bytes that are truncated or in"),
        (of(str(tmp_path / "bad")), "expected a network that MXNet can read"),
        (of(modules, "--load-epoch=4", shape="--image-shape=3,16,16"), "cannot run on images of"),
        (of(own[0], "--metrics=mse"), "--metrics: expected acc"),
        (of(own[0], "--image-shape=3"), "--image-shape: expected 3 whole numbers"),
    ):
        with pytest.raises(SpecError) as error:
            score(words)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    for words, said in (
        (["--num-classes=2", "--data-train=x"], "--pretrained-model: expected the prefix"),
        (
            tuned(modules, 4, photographs, "--layer-before-fullc=fc3"),
            "unknown --layer-before-fullc",
        ),
        (tuned(modules, 3, photographs), "m-0003.params: expected a checkpoint's parameters"),
    ):
        with pytest.raises(SpecError, match=said):
            build_worker(fine_tune.parse(words))


def test_scores_are_right_on_known_ones() -> None:
    given = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3]]))
    found = score_outputs(given, np.array([0.0, 1.0, 0.0]), 2)
    assert (found.total, found.correct, found.in_top_k) == (3, 1, 2)
    assert found.loss == pytest.approx(-np.log([0.7, 0.3, 0.2]).sum())
    assert score_outputs(np.exp(given), np.array([0, 1, 0]), 2) == found
    with pytest.raises(ValueError, match="label: expected 0 to 2, got 3"):
        score_outputs(given, np.array([0, 1, 3]), 1)


def test_scores_that_are_no_numbers_fail() -> None:
    with pytest.raises(FloatingPointError, match="scores: expected finite numbers"):
        score_outputs(np.full((2, 3), np.nan), np.array([0, 1]), 1)


def test_metrics_have_upstreams_names() -> None:
    assert metrics("acc,top_k_accuracy_5,nll-loss") == {
        "acc": 1,
        "top_k_accuracy_5": 5,
        "nll-loss": 0,
    }


def upstreams_names(prefix: str, to: str, epoch: int) -> list[str]:
    """Save a checkpoint with renamed arrays; return the names in order of use."""
    symbol, arguments, auxiliary = mx.model.load_checkpoint(prefix, epoch)
    order = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    roles = {"mean": "moving_mean", "var": "moving_var"}
    renamed = {}
    for number, name in enumerate(order):
        role = name.rpartition("_")[2]
        renamed[name] = f"layer{number:03d}_{roles.get(role, role)}"
    renamed |= {"data": "data", "softmax_label": "softmax_label"}
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        node["name"] = renamed.get(node["name"], node["name"])
    theirs = mx.sym.load_json(json.dumps(graph))
    args, aux = (
        {renamed[name]: one for name, one in some.items()} for some in (arguments, auxiliary)
    )
    mx.model.save_checkpoint(to, epoch, theirs, args, aux)
    return [name for name in renamed.values() if name not in {"data", "softmax_label"}]


NETWORKS = pytest.mark.parametrize(
    "network", ["--network=resnet-18", *slow("--network=tiny", "--network=mobilenet")]
)


def synthetic(network: str, prefix: Path, *words: str) -> list[str]:
    given = [network, "--image-shape=3,64,64", "--num-classes=10", "--batch-size=2"]
    measured = ["--benchmark=1", "--windows=1", "--lr=0.001", f"--model-prefix={prefix}"]
    return [*given, *measured, *words]


@NETWORKS
def test_upstreams_module_loads_our_checkpoints_as_it_does_its_own(
    network: str, tmp_path: Path
) -> None:
    words = synthetic(network, tmp_path / "m")
    train(parse(words))
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(tmp_path / "m"), 1)
    assert symbol.list_outputs() == ["softmax_output"]
    assert not [one for one in symbol.attr_dict().values() if any("mult__" in key for key in one)]
    images = mx.nd.random.uniform(-1, 1, (4, 3, 64, 64))
    module = mx.mod.Module(symbol)  # data and softmax_label, as upstream's score.py has it
    module.bind([("data", images.shape)], [("softmax_label", (4,))], for_training=False)
    module.set_params(arguments, auxiliary)
    module.forward(mx.io.DataBatch([images], [mx.nd.zeros(4)]), is_train=False)
    found = module.get_outputs()[0].asnumpy()
    net = build_worker(parse([*words, "--load-epoch=1"])).net
    np.testing.assert_allclose(found, mx.nd.softmax(net(images)).asnumpy(), rtol=2e-4, atol=1e-6)


def test_module_trains_our_checkpoint_without_decay_of_biases(
    own: tuple[str, float], tmp_path: Path
) -> None:
    symbol, arguments, auxiliary = mx.model.load_checkpoint(own[0], 3)
    module = mx.mod.Module(symbol)
    module.bind([("data", (2, 3, 32, 32))], [("softmax_label", (2,))])
    module.init_params(arg_params=arguments, aux_params=auxiliary)
    module.init_optimizer(optimizer_params={"wd": 0.1})
    optimizer = module._optimizer
    decays = {name: optimizer._get_wds([n])[0] for n, name in optimizer.idx2name.items()}
    assert decays == {name: 0.1 if name.endswith("weight") else 0.0 for name in arguments}


@NETWORKS
def test_training_goes_on_from_a_checkpoint_with_upstreams_names(
    network: str, tmp_path: Path
) -> None:
    train(parse(synthetic(network, tmp_path / "own")))
    theirs = str(tmp_path / "theirs")
    names = upstreams_names(str(tmp_path / "own"), theirs, 1)
    before = Path(f"{theirs}-symbol.json").read_bytes()
    words = ["--load-epoch=1"]
    worker = build_worker(parse(synthetic(network, tmp_path / "theirs", *words)))
    saved = mx.nd.load(str(tmp_path / "own-0001.params"))
    for name, parameter in worker.net.collect_params().items():
        array = saved.get(f"arg:{name}", saved.get(f"aux:{name}"))
        np.testing.assert_array_equal(parameter.data().asnumpy(), array.asnumpy())
    # The next checkpoint is of the same program: its names, its symbol.
    train(parse(synthetic(network, tmp_path / "theirs", *words)))
    assert Path(f"{theirs}-symbol.json").read_bytes() == before
    symbol, arguments, auxiliary = mx.model.load_checkpoint(theirs, 2)
    assert {*arguments, *auxiliary} == set(names)
    module = mx.mod.Module(symbol)
    module.bind([("data", (2, 3, 64, 64))], [("softmax_label", (2,))])
    module.set_params(arguments, auxiliary)


def test_arrays_of_other_shapes_are_another_network_whatever_their_names(tmp_path: Path) -> None:
    train(parse(synthetic("--network=tiny", tmp_path / "own")))
    upstreams_names(str(tmp_path / "own"), str(tmp_path / "theirs"), 1)
    words = synthetic("--network=alexnet", tmp_path / "theirs", "--load-epoch=1")
    words[words.index("--image-shape=3,64,64")] = "--image-shape=3,72,72"
    with pytest.raises(
        SpecError, match=r"theirs-0001\.params: belongs to a different network"
    ) as error:
        build_worker(parse(words))
    assert "\n" not in str(error.value)


def test_another_number_of_classes_is_named_also_under_upstreams_names(tmp_path: Path) -> None:
    train(parse(synthetic("--network=tiny", tmp_path / "own")))
    upstreams_names(str(tmp_path / "own"), str(tmp_path / "theirs"), 1)
    words = synthetic("--network=tiny", tmp_path / "theirs", "--load-epoch=1")
    words = [word for word in words if not word.startswith("--num-classes")]
    with pytest.raises(SpecError, match="Give its --network, --num-classes and --image-shape"):
        build_worker(parse([*words, "--num-classes=12"]))
