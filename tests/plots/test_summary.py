"""The summary: measured points, scaling and caveats in one paragraph."""

import dataclasses
from typing import Any

from bench.notes import Note, NoteKind
from plots.items import Item, shortened
from plots.summary import caveats, key_items, summary, summary_items
from results.record import Record
from results.run import with_baseline
from results.scaling import scaling
from tests.support.goldens import assert_golden
from tests.support.runs.records import record, with_versions
from tests.support.runs.scenes import emulated, point, published, run, three

DIST: dict[str, Any] = {"kvstore": "dist_sync", "devices_per_host": 4}


def said(records: Any, **fields: Any) -> str:
    return summary(run(records, **fields))


def test_a_run_of_three_points() -> None:
    assert said(three()) == (
        "On 4 CPU cores (ideal: 4 times the throughput of 1 CPU core): alexnet (local) "
        "30.0 images/s (95 % CI 28.7 - 30.9), 75 ± 4 % of ideal. Trained "
        "on 2026-01-02 with synthetic images on 1 to 4 CPU cores, kvstore local, batch size 8 "
        "per device: 3 points, each run once. 0 of 3 points can be published: n < 3 (3 points), "
        "versions unknown (3 points), baseline not publishable (2 points)."
    )


def test_one_of_several_kvstores_has_the_highest_throughput() -> None:
    both = [*three(), point(4, 20, kvstore="dist_sync", devices_per_host=4)]
    text = said(both)
    assert text.startswith("Highest throughput of each network on 4 CPU cores (ideal: 4 times the ")
    assert "alexnet (local) 30.0 images/s" in text


def test_the_published_table() -> None:
    assert_golden("published.words", said(published()).replace(". ", ".\n") + "\n")


def test_a_paragraph_grows_no_longer_with_more_points() -> None:
    for records in (three(), published()):
        assert said(records).count(". ") < 6
        assert len(said(records).split()) < 130


def test_a_rehearsal_says_so_before_all_else() -> None:
    script = [point(n, 10 * n, engine="fake") for n in (1, 2)]
    text = said(script)
    assert text.startswith("This run is SIMULATED: ")
    assert "Simulated on 2026-01-02 with synthetic images" in text
    assert (
        "Scripted results on 2 CPU cores (ideal: 2 times the throughput of 1 CPU core): alexnet"
        in text
    )
    assert "AMD EPYC" not in text


def test_figures_of_others_are_said_to_be_theirs() -> None:
    records = [dataclasses.replace(one, source="a tutorial, 2017") for one in three()]
    text = said(records, environment={})
    assert text.startswith("These figures were not measured by mxscale. Source: a tutorial, 2017. ")
    assert said([records[0], *three()[1:]]).startswith("Some of these figures were not measured")


def test_points_without_a_number_are_named_with_how_they_ended() -> None:
    text = said([*three(), point(8, 1, status="hung", **DIST)], missing=("alexnet dist_sync x16",))
    assert (
        "No result for 1 of 4 points: alexnet dist_sync x8 (stalled). "
        "Not measured yet: 1 of 5 runs." in text
    )


def test_emulated_points_are_out_of_every_claim() -> None:
    text = summary(dataclasses.replace(run([]), rows=emulated(scaling(three()), 4)))
    assert "On 2 CPU cores, the most that are not oversubscribed (ideal: 2 times the " in text
    assert "): alexnet (local) 18.0 images/s (95 % CI " in text
    assert "30.0" not in text
    assert "1 oversubscribed point (more devices" in text


def test_where_all_is_emulated_nothing_is_claimed() -> None:
    rows = [dataclasses.replace(row, emulated=True) for row in scaling(three())]
    study = dataclasses.replace(run([]), rows=rows)
    assert "No point supports a performance claim." in summary(study)


def test_of_a_rehearsal_without_claims_is_said_once_that_it_claims_nothing() -> None:
    text = said([point(1, 9, status="hung", engine="fake")])
    assert (text.count("no figure here is a measurement"), "No point" in text) == (1, False)


def test_efficiency_is_told_against_each_base() -> None:
    records = [*three(), point(1, 9, **DIST), point(8, 56, **DIST)]
    text = said(records)
    assert "alexnet (dist_sync) 56.0 images/s (95 % CI " in text
    assert "), 70 ± 3 % of ideal" in text
    assert "Efficiency vs 1 host (alexnet dist_sync x8): 93 ± 4 %; vs 1 worker (" in text
    assert "servers share CPU cores with the workers" in text


def test_efficiency_vs_1_host_is_of_points_on_several_hosts() -> None:
    both = [*three(), point(4, 27, **DIST)]
    assert "Efficiency vs 1 host" not in said(both)


def test_a_throughput_that_its_own_times_contradict_is_left_out() -> None:
    contradicted = (Note(NoteKind.PRINTED_CONTRADICTED, {"factor": 4.0}),)
    fast = point(4, 900, kvstore="dist_sync", devices_per_host=4)
    fast = dataclasses.replace(fast, notes=contradicted)
    text = said([*three(), fast])
    assert "alexnet (local) 30.0 images/s" in text
    assert "Left out as contradicted by the times of its lines: alexnet dist_sync x4 (90" in text
    assert "No point supports a performance claim." in said([fast])


def test_the_highest_throughput_is_that_of_the_figure_if_it_lacks_points() -> None:
    kinds: list[dict[str, Any]] = [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (1, 2)]
    records = [point(n, 10 * n, devices_per_host=4, **kind) for kind in kinds for n in (1, 4)]
    assert said(records).startswith("Highest throughput of each network in the figure on 4 CPU")


def test_only_figures_that_a_program_reported_have_a_source() -> None:
    source: dict[str, Any] = {"engine": "command", "format": "horovod-synthetic"}
    source["command"] = ["prog"]
    failed = dataclasses.replace(
        point(4, 9, status="failed", **source), ranks=(), source="reported by prog"
    )
    assert "not measured by mxscale" not in said([*three(), failed])
    good = dataclasses.replace(point(4, 9, **source, seed=2), source="reported by prog")
    text = said([*three(), failed, good])
    assert "Some of these figures were not measured by mxscale. Source: reported by prog." in text


def test_a_run_without_its_base_says_that_scaling_cannot_be_told() -> None:
    assert "Scaling is not available" in said(three()[1:])
    assert "not available" not in said(three()[:1])


def test_a_chosen_baseline_that_no_point_has_is_named() -> None:
    text = summary(with_baseline(run(three()), "local x7"))
    assert "Scaling is not available: no point has a speed-up vs local x7." in text


def test_of_many_networks_the_best_and_the_worst_are_told() -> None:
    names = [("vgg", 11), ("vgg", 13), ("vgg", 16), ("vgg", 19), ("alexnet", None)]
    records = [
        point(n, 10 * n ** (1 - place / 10), network=name, num_layers=layers)
        for place, (name, layers) in enumerate(names)
        for n in (1, 4)
    ]
    text = said(records)
    assert "best of 5 networks: vgg-11 (local) 40.0 images/s" in text
    assert "worst: alexnet (local) 23.0 images/s (95 % CI " in text


def test_reading_alone_needs_no_training() -> None:
    text = said([point(1, 500, mode="test-io", data_train="d")])
    assert text.startswith("Input-pipeline benchmark: 500 images/s.")


def test_what_a_store_moves_is_told() -> None:
    moved = point(2, 4e8, mode="bandwidth", kvstore="dist_sync")
    assert "alexnet dist_sync bandwidth x2: 200 MB/s per worker in each direction" in said([moved])


def test_three_steady_repeats_give_no_cause_for_doubt() -> None:
    records = [
        with_versions(point(n, 10 * n, repeat=repeat)) for n in (1, 2) for repeat in range(3)
    ]
    assert "All 2 points can be published." in said(records)
    assert list(caveats(run(records))) == [Item("No caveats were found in the records.")]


def test_wide_intervals_and_repeats_that_differ_are_doubted() -> None:
    records = [point(1, rate, repeat=n) for n, rate in enumerate((8.0, 10.0, 12.0))]
    assert "0 of 1 point can be published: 95 % CI wider than ±5 % (1 point)" in said(records)


def test_a_point_better_than_ideal_casts_doubt_on_its_base() -> None:
    assert "a baseline may be too slow: alexnet local x2" in said([point(1, 10), point(2, 25)])


def test_how_often_points_ran_is_told_in_words() -> None:
    records = [point(n, 10 * n, repeat=repeat) for n in (1, 2) for repeat in range(2)]
    assert "2 points, each run twice." in said(records)
    assert "1 point, run 3 times." in said([point(1, 9, repeat=n) for n in range(3)])
    assert ": 1 point." in said([point(1, 9, status="hung")])


def windows(devices: int, *seconds: float) -> Record:
    return record([[1.0, *seconds]], devices=devices)


def test_what_is_too_uncertain_is_doubted_and_not_told_as_a_result() -> None:
    text = said([windows(1, 1.0, 9.0), windows(2, 1.0, 7.0)])
    assert text.startswith(
        "No point supports a performance claim. Left out as too uncertain: alexnet local x2 ("
    )
    assert "too uncertain to use: alexnet local x1, alexnet local x2" in text
    assert "95 % CI wider than the value (2 points)" in text


def test_a_larger_point_that_is_too_uncertain_is_named_beside_the_headline() -> None:
    text = said([point(1, 10), point(2, 18, **DIST), windows(2, 1.0, 7.0)])
    assert "alexnet (dist_sync) 18.0 images/s (95 % CI " in text
    assert "Left out as too uncertain: alexnet local x2 (4.00 images/s)." in text
    assert "Scaling is not available: no usable point has a speed-up baseline." in said(
        [
            windows(1, 1.0, 7.0),
            windows(2, 1.0, 7.0),
            *(point(n, 9 * n, batch_per_device=4) for n in (2, 4)),
        ]
    )
    assert "95 % CI wider than the value (1 point)" in text


def test_a_network_whose_points_are_all_too_uncertain_is_named() -> None:
    vgg = [
        record([[1.0, 1.0, 7.0]], devices=n, network="vgg", num_layers=16, kvstore="local")
        for n in (1, 2)
    ]
    text = said([*three(), *vgg])
    assert "alexnet (local) 30.0 images/s" in text
    assert "Left out as too uncertain: vgg-16 local x2 (" in text


def test_an_efficiency_is_left_out_where_its_base_is_too_uncertain() -> None:
    text = said([windows(1, 1.0, 9.0), windows(2, 1.0, 1.01, 0.99)])
    assert text.startswith("On 2 CPU cores: alexnet (local) 16.0 images/s (95 % CI ")
    assert "alexnet local x1, alexnet local x2 vs its baseline" in text


def test_batches_are_told_where_there_is_one_for_all() -> None:
    other = [point(n, 9 * n, network="vgg", num_layers=16, batch_per_device=2) for n in (1, 2)]
    assert "batch size 8 per device" in said(three())
    assert "batch size" not in said([*three(), *other])


def test_the_networks_on_real_images_are_named_where_others_had_none() -> None:
    real = point(2, 9, network="resnet", num_layers=18, mode="real", data_train="d")
    assert "with synthetic images (real images: resnet-18) on" in said([*three(), real])


def test_five_sentences_at_most_lead_the_page_and_caveats_are_kept_first() -> None:
    failed = [point(n, 9.0, status="hung", **DIST) for n in (4, 8, 16, 32)]
    reading = point(1, 400, mode="test-io", data_train="d")
    served = [point(n, 9.0 * n, **DIST) for n in (1, 2)]
    study = run([*three(), reading, *served, *failed], missing=("alexnet local x8",))
    whole, found = summary_items(study), key_items(study)
    assert len(found) == 5 < len(whole)
    texts = [one.text for one in found]
    assert [one.text for one in whole if one.text in texts] == texts  # in the same order
    assert {one.text for one in whole if one.caveat} <= set(texts)
    assert not any("images/s (95 % CI" in part for one in found for part in one.parts)


def test_a_long_list_of_caveats_is_counted_on_the_page() -> None:
    assert shortened(Item("Caveats", ("a", "b", "c", "d")), 2).parts == ("a", "b", "2 more")
    assert shortened(Item("Caveats", ("a", "b")), 2).parts == ("a", "b")
