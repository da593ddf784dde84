# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's reports on itself and the node: `status`, `view`, `jobs`, `tasks`. Reads only."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any, cast

from ctl import contract as views
from ctl import policy
from ctl.kernel import sysinfo
from ctl.kernel.process_state import all_stopped
from ctl.node import overload
from ctl.node.agent import Agent
from ctl.node.contract_report import contract_report
from ctl.node.jobs import Job
from ctl.node.rates import Rates
from ctl.policy import values as knob_values

__all__ = ["Report"]

_TAKEN_FROM_JOBS = ("cpu_ns", "major_faults", "swap_ins")


class Report:
    """Answers from an agent's state."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.rates = Rates(self._counters)

    def _counters(self) -> dict[str, dict[str, int]]:
        """The counters that rates are made of: those of rules, and of jobs with "job " ahead of the JID."""
        table = self._agent.scheduler.stats_by_rule()
        for jid, usage in self._agent.jobs.usage().items():
            table["job " + jid] = {name: int(usage[name]) for name in _TAKEN_FROM_JOBS}  # type: ignore[literal-required]
        return table

    def ping(self) -> dict[str, object]:
        """The process that answers: the pid to wait for."""
        return {"pid": os.getpid(), "supervisor": os.getppid()}

    # overload and memory

    def overload(self) -> dict[str, Any]:
        """The knob, the agent's verdict, the scheduler's value, and the numbers behind the verdict."""
        state, mode = self._agent.memory.state, self._agent.settings.word("overload")
        mem, limit = overload.mem_and_limit(state.last) if state.last else (None, None)
        return {
            "mode": mode,
            "verdict": state.overloaded,
            "effective": state.overloaded if mode == "auto" else mode == "on",
            "why": state.why if mode == "auto" else f"knob overload is {mode}; else: {state.why}",
            "mem": mem,
            "m": limit,
            "refaults_s": state.refaults_s,
            "swapins_s": state.swapins_s,
            "stall": state.stall,
            "psi_some": state.last.psi_some if state.last else None,
            "psi_full": state.last.psi_full if state.last else None,
        }

    def _memory(self) -> views.Memory:
        last = self._agent.memory.state.last
        assert last is not None  # a sample is taken before the first request
        mem, limit = overload.mem_and_limit(last)
        return {
            "m": limit,
            "mem": mem,
            "swap_total": last.swap_total,
            "swap_used": last.swap_total - last.swap_free,
            "swapins_s": self._agent.memory.state.swapins_s,
            "psi_some": last.psi_some,
            "psi_full": last.psi_full,
        }

    # status

    def status(self) -> dict[str, Any]:
        """The output of `ctl status --json`."""
        agent = self._agent
        knobs, counters = agent.settings.values, agent.scheduler.stats()
        default = knob_values.shown(policy.defaults())
        return {
            "loaded": True,
            "policy": agent.settings.policy.name,
            "rule": agent.settings.policy.rule,
            "knobs": knobs,
            "changed": {name: value for name, value in knobs.items() if value != default.get(name)},
            "sched_ext": {"state": sysinfo.scx_state(), "ops": sysinfo.scx_ops()},
            "overload": self.overload(),
            "contract": contract_report(agent.contract, agent.settings, agent.jobs),
            "counters": {**counters, **agent.sensors.lost()},
            "queue": self._queue_in_short(),
            "sensors": {
                "state": agent.sensors.state,
                "reason": agent.sensors.reason,
                "active": agent.sensors.active(),
            },
            "trace": {
                "readers": len(agent.tracing.readers),
                "recorded": counters["traced"],
                "lost": counters["trace_lost"],
            },
            "jobs": [job.jid for job in agent.jobs],
            "agent": {"pid": os.getpid(), "since": agent.since, "uptime_s": time.time() - agent.since},
            "last_exit": None,
        }

    # view

    def view(self) -> views.View:
        """One frame of the dashboard."""
        agent = self._agent
        self.rates.look()
        counters = agent.scheduler.stats()
        memory = self.overload()
        return {
            "time": time.time(),
            "since": agent.since,
            "node": os.uname().nodename,
            "policy": agent.settings.policy.name,
            "rule": agent.settings.policy.rule,
            "knobs": dict(agent.settings.values),
            "modes": {
                "predictive": counters["mode_predictive"],
                "dynamic": counters["mode_dynamic"],
                "csm": counters["mode_csm"],
            },
            "overload": {"mode": memory["mode"], "verdict": memory["effective"], "why": memory["why"]},
            "local_user": agent.contract.user.why if agent.contract.user.present else None,
            "cluster": self._cluster(),
            "queue": self._queue(),
            "memory": self._memory(),
            "cpus": [self._cpu(cpu) for cpu in sysinfo.online_cpus()],
            "jobs": cast("list[views.Job]", self.jobs()),
            "rules": self._rules(),
            "events": [{"time": event["time"], "text": event["text"]} for event in agent.events],
            "traced_lost": counters["trace_lost"],
        }

    def measured(self) -> views.Measured:
        """The figures of a scrape."""
        last = self._agent.memory.state.last
        assert last is not None  # a sample is taken before the first request
        return {
            "status": self.status(),
            "jobs": self.jobs(),
            "rules": self._agent.scheduler.stats_by_rule(),
            "queued": {cpu: self._agent.scheduler.queue_length(cpu) for cpu in sysinfo.online_cpus()},
            "paging": {"swapins": last.swapins, "refaults": last.refaults, "stalled": last.stalled},
        }

    def _cluster(self) -> views.Cluster | None:
        peers = self._agent.contract.peers
        if peers is None:
            return None
        known = peers.status()
        holders = {job["jid"]: job["nodes"] for job in known["jobs"]}
        sizes = {size["node"]: size for size in known["nodes"]}
        nodes: dict[str, views.ClusterNode] = {}
        for name in sorted({known["node"], *sizes, *itertools.chain(*holders.values())}):
            size = sizes.get(name, {})
            nodes[name] = {
                "jobs": len(holders) if name == known["node"] else sum(name in held for held in holders.values()),
                "speed": size.get("speed"),
                "memory": size.get("memory"),
                "share_l": size.get("share_l"),
            }
        return {"node": known["node"], "broker": known["broker"], "nodes": nodes, "holders": holders}

    def _queue(self) -> views.Queue | None:
        if not self._agent.settings.on("fit"):
            return None
        return cast("views.Queue", self._agent.contract.fitting.report())

    def _queue_in_short(self) -> dict[str, Any] | None:
        now = self._queue()
        if now is None:
            return None
        return {
            "room": now["room"],
            "turn_left_s": now["turn_left_s"],
            "runs": [job["jid"] for job in now["jobs"] if job["state"] in views.IN_MEMORY],
            "waits": [(job["jid"], job["why"]) for job in now["jobs"] if job["state"] in ("waits", "stopped")],
            "held": [(job["jid"], job["why"]) for job in now["jobs"] if job["state"] == "held"],
            "on_hold": [(job["jid"], job["why"]) for job in now["jobs"] if job["state"] == views.ON_HOLD],
        }

    def _cpu(self, cpu: int) -> views.Cpu:
        snap = self._agent.scheduler.snapshot(cpu)
        running = snap["running"]
        return {
            "cpu": cpu,
            "running": self._with_jid(running) if running else None,
            "queue": [self._with_jid(task) for task in snap["queue"]],
            "nr_queued": snap["queued"],
            "nr_expired": snap["expired"],
        }

    def _with_jid(self, task: dict[str, Any]) -> views.Task:
        jid = self._agent.jobs.jid_of(task["tid"]) if task["parallel"] else None
        return {**task, "jid": jid}  # type: ignore[typeddict-item]

    def _rules(self) -> dict[str, views.RuleRate]:
        found: dict[str, views.RuleRate] = {}
        for rule, counters in self._agent.scheduler.stats_by_rule().items():
            if counters["insertions"]:
                found[rule] = {
                    "insertions_s": self.rates.rate(rule, "insertions") or 0.0,
                    "overtakes_s": self.rates.rate(rule, "overtakes") or 0.0,
                }
        return found

    # jobs and tasks

    def jobs(self) -> list[dict[str, Any]]:
        """Every job, with its use of CPU and memory and its overtakes."""
        agent = self._agent
        stopped_by_slot = agent.contract.slots.stopped
        used, ordered = agent.jobs.usage(), agent.scheduler.jobs()
        found: list[dict[str, Any]] = []
        for job in agent.jobs:
            usage = used.get(job.jid)
            if usage is None:
                continue
            counts = ordered.get(job.cgid, {})
            state, why = agent.contract.state(job.jid)
            cpu = self.rates.rate("job " + job.jid, "cpu_ns")
            found.append(
                {
                    "jid": job.jid,
                    "tasks": usage["tasks"],
                    "cpu_share": None if cpu is None else cpu / 1e9,
                    "cpu_s": usage["cpu_ns"] / 1e9,
                    "majflt": usage["major_faults"],
                    "majflt_s": self.rates.rate("job " + job.jid, "major_faults"),
                    "swapins": usage["swap_ins"],
                    "swapins_s": self.rates.rate("job " + job.jid, "swap_ins"),
                    "overtakes_given": counts.get("overtakes_given", 0),
                    "overtakes_suffered": counts.get("overtakes_suffered", 0),
                    "memory": usage["memory"],
                    "swap": usage["swap"],
                    # a stop by slots ends in a moment, and is no state of a job
                    "frozen": usage["frozen"] and (agent.contract.pools.stopped(job.jid) or not stopped_by_slot),
                    "state": state,
                    "why": "; ".join(filter(None, (why, job.why(), _suspended(job, why)))),
                    "on_hold": self._on_hold(job.jid),
                    "stopped_s": agent.contract.pools.stopped_s(job.jid),
                    "user": job.user,
                    "from": job.origin,
                    "since": job.started,
                    "refused": job.refused,
                }
            )
        return found

    def _on_hold(self, jid: str) -> dict[str, Any] | None:
        word = self._agent.contract.on_hold.get(jid)
        return {"by": word.by, "since": word.at} if word is not None else None

    def tasks(self) -> list[dict[str, Any]]:
        """Every thread of a job, and every local task that runs or is queued now.

        `de` and `mes` belong to a ready queue, and are None for a task outside. `add_delays` adds the rest.
        """
        agent = self._agent
        placed = self._placed()
        jobs = agent.jobs.tids()
        rows = [self._row(tid, jid, placed.get(tid)) for tid, jid in jobs.items()]
        rows += [self._row(tid, None, task) for tid, task in placed.items() if tid not in jobs]
        return sorted(rows, key=lambda row: (row["jid"] is None, row["jid"] or "", row["tid"]))

    def _placed(self) -> dict[int, dict[str, Any]]:
        """Tasks that run or are queued under our scheduler, by thread id."""
        found: dict[int, dict[str, Any]] = {}
        for cpu in sysinfo.online_cpus():
            snap = self._agent.scheduler.snapshot(cpu)
            if snap["running"]:
                found[snap["running"]["tid"]] = {**snap["running"], "cpu": cpu, "position": 0}
            for position, task in enumerate(snap["queue"], 1):
                found[task["tid"]] = {**task, "cpu": cpu, "position": position}
        return found

    def _row(self, tid: int, jid: str | None, task: dict[str, Any] | None) -> dict[str, Any]:
        row: dict[str, Any] = {
            "tid": tid,
            "comm": task["comm"] if task else _comm(tid),
            "jid": jid,
            "parallel": task["parallel"] if task else True,
            "state": ("running" if task["position"] == 0 else "queued") if task else "waiting",
            "cpu": task["cpu"] if task else None,
            "position": task["position"] if task else None,
            "de": task["de"] if task else None,
            "mes": task["mes"] if task else None,
            "waiting": task["waiting"] if task else None,
        }
        row.update({name: task[name] if task else None for name in ("com", "rec", "flt")})
        if task is None:
            row.update(self._observed(tid))
        return row

    def _observed(self, tid: int) -> dict[str, int]:
        """com, rec and flt of a task that is in no ready queue, as the scheduler would see them."""
        sensors = self._agent.sensors.reading()
        if sensors is None:
            return {}
        seen = sensors.observation(tid)
        if self._agent.settings.values["flt"] == "probability":
            flt = sysinfo.fault_probability(tid)
        else:
            flt = seen.faults_last_second(time.monotonic_ns()) if seen else 0
        return {
            "com": max(0, seen.rcv) + max(0, seen.snd) if seen else 0,
            "rec": max(0, seen.rcv) if seen else 0,
            "flt": flt,
        }

    def add_delays(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the time that each task has waited for pages from swap, and for just lost pages: ms, by taskstats.

        None: unknown. Safe in a thread: asking for thousands of tasks takes a while.
        """
        ask = self._agent.listeners.task_delays
        for row in rows:
            seen = ask.get(row["tid"]) if ask else None
            row["swapin_ms"] = None if seen is None else seen.swapin_ns / 1e6
            row["thrashing_ms"] = None if seen is None else seen.thrashing_ns / 1e6
        return rows


def _suspended(job: Job, why: str) -> str:
    """That its owner has stopped the job, in words, if the reason does not say so; empty: it is not so."""
    return views.SUSPENDED if views.SUSPENDED not in why and all_stopped(job.processes) else ""


def _comm(tid: int) -> str:
    try:
        return Path(f"/proc/{tid}/comm").read_text().rstrip("\n")
    except OSError:
        return "?"
