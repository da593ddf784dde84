# SPDX-License-Identifier: GPL-2.0-or-later
"""Above the queues: the cluster's nodes, and the slowed and stopped jobs, each with the reason."""

from __future__ import annotations

from rich.text import Text

from ctl.contract import Cluster
from ctl.monitor.pen import LIMIT, LOCAL, PARALLEL, QUIET, WARN, Pen
from ctl.monitor.text import clean, flow, line

__all__ = ["nodes"]

_LABEL = 9
_STYLES = {"slowed": WARN, "stopped": LIMIT}


def nodes(pen: Pen) -> list[Text]:
    """At most two lines; none for a node that works alone and holds back no job."""
    lines, cluster = [], pen.view.get("cluster")
    if cluster is not None:
        who = flow(pen.width - _LABEL, [_broker(cluster), *map(Text, _names(cluster))], gap="  ")
        lines.append(line(pen.width, [Text(f"{'cluster':<{_LABEL}}", QUIET), who]))
    held = [job for job in pen.view["jobs"] if job.get("state") in _STYLES]
    if held:
        shown: list[Text | str] = [Text(f"{'held':<{_LABEL}}", QUIET)]
        for job in held:
            state = job.get("state", "")
            text = Text().append(clean(job["jid"]), PARALLEL).append(f" {state}", _STYLES[state])
            shown += [text.append(f": {clean(job.get('why', ''))}", QUIET), "  "]
        lines.append(line(pen.width, shown))
    return lines


def _broker(cluster: Cluster) -> Text:
    if cluster["broker"]:
        return Text(f"by {clean(cluster['broker'])}", LOCAL)
    return Text("no broker: this node decides alone", WARN)


def _names(cluster: Cluster) -> list[str]:
    """Each node with the number of this node's jobs that it holds."""
    return [
        clean(name) + (f" ({shared} of our jobs)" if shared else "") for name, shared in cluster["nodes"].items()
    ]
