"""Which tests run on both builds: those of compiled modules.

`make test` runs everything on the compiled build, and these files on the interpreted one too. The
other packages use the same sources on both builds. A test outside this list can ask for both with
`pytest.mark.both_builds`.
"""

from __future__ import annotations

from pathlib import Path

import sojourn

# Each compiled module, and the files that test it first of all.
TESTS_OF = {
    "sojourn.aio.loop": ("test_aio",),
    "sojourn.aio.wait": ("test_aio_wait",),
    "sojourn.clock": ("test_manual_clock",),
    "sojourn.deadlines": ("test_deadlines",),
    "sojourn.durable.answers": ("test_durable_operation",),
    "sojourn.durable.machine": ("test_durable_semantics", "test_durable_simulation"),
    "sojourn.durable.records": ("test_durable_semantics", "test_durable_faults"),
    "sojourn.forest": ("test_forest",),
    "sojourn.histogram": ("test_metrics",),
    "sojourn.keys": ("test_progress",),
    "sojourn.levels": ("test_wheel", "test_wheel_random", "test_golden"),
    "sojourn.lock": ("test_lock",),
    "sojourn.millis": ("test_bad_input_timer",),
    "sojourn.operation": ("test_operation", "test_futures"),
    "sojourn.places": ("test_deadlines", "test_progress"),
    "sojourn.progress": ("test_progress", "test_progress_random", "test_progress_races"),
    "sojourn.purgatory": ("test_purgatory", "test_purgatory_random", "test_races"),
    "sojourn.replay.alarms": ("test_replay_engine", "test_replay_engine_random"),
    "sojourn.replay.codes": ("test_replay_codes",),
    "sojourn.replay.endings": ("test_replay_codes", "test_one_answer"),
    "sojourn.replay.steps": ("test_replay_codes", "test_one_answer"),
    "sojourn.replay.progress": ("test_replay_engine", "test_replay_engine_random"),
    "sojourn.replay.texts": ("test_replay_engine",),
    "sojourn.replay.waiting": ("test_replay_engine", "test_replay_engine_random"),
    "sojourn.spark.fingerprints": ("test_spark_stages",),
    "sojourn.task": ("test_timer", "test_misuse_timer"),
    "sojourn.timer": ("test_timer", "test_reaper"),
    "sojourn.watchers": ("test_purgatory",),
    "sojourn.wheel": ("test_wheel", "test_wheel_random", "test_golden"),
}

# They use several of these modules together.
TOGETHER = (
    "test_bad_input_purgatory",
    "test_build",
    "test_collections",
    "test_durable_expiries",
    "test_durable_kill",
    "test_durable_power",
    "test_durable_watching",
    "test_finalisers",
    "test_fork",
    "test_kafka_delayed",  # one file of Kafka's, whose requests wait in purgatories
    "test_kafka_races",
    "test_misuse",
    "test_natural_names",
    "test_no_dead_weight",
    "test_purgatory_in_production",
    "test_replay_files",
    "test_replay_local",
    "test_replay_rows",
    "test_spark_stream_stages",
)

BOTH_BUILDS = {*TOGETHER, *(name for names in TESTS_OF.values() for name in names)}


def compiled_modules() -> set[str]:
    """The modules that have a .pxd file beside them, by name."""
    package = Path(sojourn.__file__).parent
    return {
        ".".join(source.relative_to(package.parent).with_suffix("").parts)
        for source in package.rglob("*.pxd")
        if source.with_suffix(".py").exists()
    }
