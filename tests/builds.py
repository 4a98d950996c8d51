"""Which tests run on both builds: those of compiled modules.

`make test` runs everything on the compiled build, and these files on the interpreted one too. The
other packages use the same sources on both builds.

    python -m tests.builds

prints the files, so that the interpreted run need not import the others to pass over them.
"""

from __future__ import annotations

from pathlib import Path

import sojourn

TESTS = Path(__file__).parent

# Each compiled module, and the files in this folder that test it first of all.
TESTS_OF = {
    "sojourn.aio.conditions": ("aio/test_wait", "aio/test_wait_cancelled"),
    "sojourn.aio.loop": ("aio/test_purgatory", "aio/test_timer", "aio/test_threads"),
    "sojourn.aio.wait": ("aio/test_wait", "aio/test_wait_as_future", "aio/test_wait_cancelled"),
    "sojourn.core.clock": ("core/test_manual_clock",),
    "sojourn.core.deadlines": ("core/test_deadlines",),
    "sojourn.core.forest": ("core/test_forest",),
    "sojourn.core.histogram": ("core/test_metrics",),
    "sojourn.core.keys": ("core/test_progress_keys", "core/test_purgatory_keys"),
    "sojourn.core.levels": ("core/test_wheel", "core/test_wheel_random", "core/test_golden"),
    "sojourn.core.lock": ("core/test_lock",),
    "sojourn.core.millis": ("core/test_bad_input_timer",),
    "sojourn.core.operation": (
        "core/test_operation",
        "core/test_operation_errors",
        "core/test_operation_tries",
        "core/test_futures",
    ),
    "sojourn.core.places": ("core/test_deadlines", "core/test_progress"),
    "sojourn.core.progress": (
        "core/test_progress",
        "core/test_progress_input",
        "core/test_progress_random",
        "core/test_progress_races",
    ),
    "sojourn.core.purgatory": (
        "core/test_purgatory",
        "core/test_purgatory_admission",
        "core/test_purgatory_audit",
        "core/test_purgatory_callbacks",
        "core/test_purgatory_cancelling",
        "core/test_purgatory_closing",
        "core/test_purgatory_random",
        "core/test_purgatory_wait",
        "core/test_races",
    ),
    "sojourn.core.residents": ("core/test_purgatory", "core/test_progress"),
    "sojourn.core.task": (
        "core/test_timer_tasks",
        "core/test_timer_release",
        "core/test_misuse_timer",
    ),
    "sojourn.core.timer": (
        "core/test_timer",
        "core/test_timer_closing",
        "core/test_reaper",
        "core/test_driver",
    ),
    "sojourn.core.watchers": ("core/test_purgatory",),
    "sojourn.core.wheel": (
        "core/test_wheel",
        "core/test_wheel_random",
        "core/test_wheel_release",
        "core/test_wheel_threads",
        "core/test_golden",
    ),
    "sojourn.durable.answers": ("durable/test_operation",),
    "sojourn.durable.checks": ("durable/test_faults",),
    "sojourn.durable.machine": ("durable/test_semantics", "durable/test_simulation"),
    "sojourn.durable.records": ("durable/test_semantics", "durable/test_faults"),
    "sojourn.durable.room": ("durable/test_watching", "durable/test_simulation"),
    "sojourn.durable.submissions": ("durable/test_operation", "durable/test_faults"),
    "sojourn.durable.waiting": ("durable/test_semantics", "durable/test_simulation"),
    "sojourn.replay.alarms": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.cancels_ahead": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.cells": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.codes": ("replay/test_codes",),
    "sojourn.replay.endings": ("replay/test_endings", "replay/test_codes", "test_one_answer"),
    "sojourn.replay.string_hashes": ("replay/test_codes", "spark/test_stream_payload"),
    "sojourn.replay.name_table": ("replay/test_codes", "spark/test_stages"),
    "sojourn.replay.needs": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.nodes": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.progress": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.remembered": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.signals_ahead": ("replay/test_engine", "replay/test_engine_random"),
    "sojourn.replay.steps": ("replay/test_codes", "test_one_answer"),
    "sojourn.replay.texts": ("replay/test_engine",),
    "sojourn.replay.waiting": ("replay/test_engine", "replay/test_engine_random"),
}

# They use several of these modules together.
TOGETHER = (
    "aio/test_misuse",
    "aio/test_operations",
    "aio/test_progress",
    "core/test_bad_input_purgatory",
    "core/test_collections",
    "core/test_finalisers",
    "core/test_fork",
    "core/test_guard",
    "core/test_kafka_races",
    "core/test_misuse",
    "core/test_natural_names",
    "core/test_no_dead_weight",
    "core/test_random_programs",
    "core/test_sweep",
    "durable/test_expiries",
    "durable/test_file",
    "durable/test_kill",
    "durable/test_power",
    "durable/test_watching",
    # Of Kafka's only these, whose requests wait in purgatories.
    "kafka/delayed/test_create_topics",
    "kafka/delayed/test_delete_records",
    "kafka/delayed/test_fetch",
    "kafka/delayed/test_produce",
    "replay/test_files",
    "replay/test_local",
    "replay/test_rows",
    "spark/test_stream_stages",
    "test_build",
    "test_signatures",
)

BOTH_BUILDS = {*TOGETHER, *(name for names in TESTS_OF.values() for name in names)}


def on_both_builds(path: Path) -> bool:
    """Say whether the tests in that file run on both builds."""
    return path.is_relative_to(TESTS) and name_of(path) in BOTH_BUILDS


def files() -> list[str]:
    """The files that run on both builds, as pytest takes them."""
    return sorted(f"{TESTS.name}/{name}.py" for name in BOTH_BUILDS)


def name_of(path: Path) -> str:
    """A file of tests as this list has it."""
    return path.relative_to(TESTS).with_suffix("").as_posix()


def compiled_modules() -> set[str]:
    """The modules that have a .pxd file beside them, by name."""
    package = Path(sojourn.__file__).parent
    return {
        ".".join(source.relative_to(package.parent).with_suffix("").parts)
        for source in package.rglob("*.pxd")
        if source.with_suffix(".py").exists()
    }


if __name__ == "__main__":
    print(*files())
