# SPDX-License-Identifier: GPL-2.0-or-later
"""A node's figures for Prometheus: names, units and meanings, and the text of one scrape.

Names follow https://prometheus.io/docs/practices/naming: base units, `_total` for counters. The scheduler's statistics
are those of COSCHED_STATS in bpf/cosched.h, with the descriptions there. A job is a number of figures under its JID;
what it runs and whose it is are in no label. The label is `jid`, as `job` and `instance` are Prometheus' own labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ctl.contract import ON_HOLD, Measured, State
from ctl.kernel.layout import STATS

__all__ = ["NodeCollector", "render"]

_PREFIX: Final = "cosched_"
_COUNTER: Final = "_total"
_MS: Final = "_ms"


class _Figure(NamedTuple):
    """One figure, and where its value is: a number, a truth, a list that is counted, or None: unknown, and left out."""

    name: str  # without the prefix; a counter's ends in _total
    meaning: str
    place: str = ""  # keys, one below the other; empty: the thing itself


_NODE: Final = (
    _Figure("start_time_seconds", "When the agent started, Unix time", "status.agent.since"),
    _Figure("overloaded", "Whether memory does not fit (Mem > M): 1 or 0", "status.overload.effective"),
    _Figure("memory_limit_bytes", "M: the memory for tasks", "status.overload.m"),
    _Figure("memory_needed_bytes", "Mem: what tasks need to run without paging", "status.overload.mem"),
    _Figure("swapped_in_pages_total", "Pages read from swap since boot", "paging.swapins"),
    _Figure("refaulted_pages_total", "Anonymous pages that came back since boot", "paging.refaults"),
    _Figure("memory_stall_seconds_total", "Time in which a task waited for memory since boot", "paging.stalled"),
    _Figure("local_user_present", "Whether a local user is present: 1 or 0", "status.contract.local_user.present"),
    _Figure(
        "share_set_ratio",
        "The jobs' part of a CPU beside busy local tasks that the contract sets",
        "status.contract.quantum.set_share",
    ),
    _Figure(
        "share_achieved_ratio",
        "The jobs' part of all CPU time used in the last epoch",
        "status.contract.quantum.achieved_share",
    ),
    _Figure("busy_cpus", "CPUs used in the last epoch", "status.contract.quantum.busy_cpus"),
    _Figure("contract_epochs_total", "Times that the agent measured shares (epoch_ms)", "status.contract.epoch.number"),
    _Figure("speed_weight_ratio", "W: this node's speed by the fastest node's", "status.contract.weight"),
    _Figure("jobs_memory_pool_bytes", "M_Paral: the memory guaranteed to jobs", "status.contract.memory.pool"),
    _Figure("jobs_memory_used_bytes", "Memory of all jobs, as Set_Memory saw it", "status.contract.memory.used"),
    _Figure("jobs_memory_held", "Whether jobs are held to their memory: 1 or 0", "status.contract.memory.held"),
    _Figure("jobs_room_bytes", "Policy fit: the room for jobs", "status.queue.room"),
    _Figure("jobs_running", "Policy fit: jobs that run", "status.queue.runs"),
    _Figure("jobs_waiting", "Policy fit: jobs that wait", "status.queue.waits"),
    _Figure("trace_readers", "Readers of decisions", "status.trace.readers"),
)
_JOB: Final = (
    _Figure("job_start_time_seconds", "When the job began, Unix time", "since"),
    _Figure("job_tasks", "Threads of the job", "tasks"),
    _Figure("job_cpu_seconds_total", "CPU time of the job", "cpu_s"),
    _Figure("job_major_faults_total", "Major page faults of the job, swap-ins included", "majflt"),
    _Figure("job_swapped_in_pages_total", "Pages of the job read from swap", "swapins"),
    _Figure("job_memory_bytes", "Resident memory of the job", "memory"),
    _Figure("job_swap_bytes", "Memory of the job in swap", "swap"),
    _Figure("job_overtakes_given_total", "How often the job's tasks overtook another", "overtakes_given"),
    _Figure("job_overtakes_suffered_total", "How often the job's tasks were overtaken", "overtakes_suffered"),
)
_STATISTICS: Final = {stat.name: _Figure(stat.name + _COUNTER, stat.description, stat.name) for stat in STATS}
_LOST: Final = _Figure("sensors_lost_total", "What the sensors could not observe")
_QUEUED: Final = _Figure("queued_tasks", "Tasks in a CPU's ready queue")
_QUANTUM: Final = _Figure("quantum_seconds", "The time slice of a local task, of a job's, of a slowed job's")
_STATES: Final = (*State, ON_HOLD)
_STATE: Final = _Figure("job_state", "The job's state on this node: 1 or 0")


class NodeCollector(Collector):
    """The metrics of a node; `ask` is called at each scrape and at no other time."""

    def __init__(self, ask: Callable[[], Measured]) -> None:
        """`ask` tells the node's figures."""
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        """All metrics now."""
        now = self._ask()
        status = now["status"]
        about = {name: str(status[name]) for name in ("policy", "rule")}
        about["contract"] = str(status["contract"]["kind"])
        yield InfoMetricFamily(_PREFIX + "scheduler", "The policy, its insert rule and its contract", value=about)
        for figure in _NODE:
            yield _family(figure, (), [((), now)])
        quanta = status["contract"]["quantum"].items()
        slices = [((name.removesuffix(_MS),), value / 1000) for name, value in quanta if name.endswith(_MS)]
        yield _family(_QUANTUM, ("task",), slices)
        yield _family(_QUEUED, ("cpu",), [((str(cpu),), length) for cpu, length in now["queued"].items()])
        rules = [((rule,), counts) for rule, counts in now["rules"].items() if any(counts.values())]
        for figure in _STATISTICS.values():
            yield _family(figure, ("rule",), rules)
        counters = status["counters"].items()
        yield _family(_LOST, ("what",), [((name,), count) for name, count in counters if name not in _STATISTICS])
        for figure in _JOB:
            yield _family(figure, ("jid",), [((job["jid"],), job) for job in now["jobs"]])
        states = [((job["jid"], str(state)), job["state"] == state) for job in now["jobs"] for state in _STATES]
        yield _family(_STATE, ("jid", "state"), states)


def _family(figure: _Figure, labels: Sequence[str], things: Iterable[tuple[Sequence[str], Any]]) -> Metric:
    """A metric with a value for each thing that has one; a thing has the values of the labels ahead of it."""
    kind = CounterMetricFamily if figure.name.endswith(_COUNTER) else GaugeMetricFamily
    family = kind(_PREFIX + figure.name.removesuffix(_COUNTER), figure.meaning, labels=labels)
    for values, thing in things:
        value = _value(thing, figure.place)
        if value is not None:
            family.add_metric(values, value)
    return family


def _value(thing: Any, place: str) -> float | None:
    for key in filter(None, place.split(".")):
        if thing is None:  # the part is not there now, as the queue of jobs without policy fit
            return None
        thing = thing[key]
    return None if thing is None else float(len(thing) if isinstance(thing, list) else thing)


def render(measured: Measured) -> bytes:
    """The text of a scrape, in Prometheus' format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(lambda: measured))
    return generate_latest(registry)
