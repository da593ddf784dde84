/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs of Slurm, in the cgroups that its cgroup/v2 plugin makes:
 *
 *   .../[NODE_]slurmstepd.scope/JOB/step_NAME/user/task_N	processes of the job
 *					      /slurm		slurmstepd: local
 *
 * JOB is job_ID, since Slurm 26.05 the job's SLUID (s8Y1M7ZKWCEB00): the agent
 * finds the ID that belongs to it.
 *
 * The scope is in system.slice, or wherever a container has that. The names
 * are read when a task is born or moved, and once for each cgroup whose tasks
 * receive on sockets; never when a task is queued. A scope that is not root's
 * does not count: a user with a subtree of his own could make such names there.
 */
#ifndef SLURM_BPF_H
#define SLURM_BPF_H

#include "scx.bpf.h"

#define SLURM_BELOW	3	/* levels from the scope down to "user" */
#define SLURM_DEEPEST	12	/* level at which a scope is still found */
#define SCOPE		"slurmstepd.scope"
#define NAME_MAX_LEN	256	/* of a file, with the 0 at its end */

static __always_inline const char *cgroup_name(struct cgroup *cgrp)
{
	return (const char *)BPF_CORE_READ(cgrp, kn, name);
}

static __always_inline bool name_begins(struct cgroup *cgrp, const char *text, u32 len)
{
	char name[8] = {};
	u32 i;

	bpf_probe_read_kernel_str(name, sizeof(name), cgroup_name(cgrp));
	for (i = 0; i < len; i++) {
		if (name[i] != text[i])
			return false;
	}
	return true;
}

/* [NODE_]slurmstepd.scope, and root's: cgroups that root has made have no attributes of their own. */
static __noinline bool is_slurm_scope(struct cgroup *cgrp)
{
	struct kernfs_iattrs *attributes = BPF_CORE_READ(cgrp, kn, iattr);
	char end[sizeof(SCOPE)] = {};
	const char *name = cgroup_name(cgrp);
	u32 len = 0, i;
	char c = 0;

	if (attributes && BPF_CORE_READ(attributes, ia_uid.val))
		return false;
	bpf_for(i, 0, NAME_MAX_LEN) {
		if (bpf_probe_read_kernel(&c, 1, name + i) || !c)
			break;
		len = i + 1;
	}
	if (len < sizeof(SCOPE) - 1)
		return false;
	bpf_probe_read_kernel_str(end, sizeof(end), name + len - (sizeof(SCOPE) - 1));
	for (i = 0; i < sizeof(SCOPE); i++)
		if (end[i] != SCOPE[i])
			return false;
	if (len == sizeof(SCOPE) - 1)
		return true;
	return !bpf_probe_read_kernel(&c, 1, name + len - sizeof(SCOPE)) && c == '_';
}

static __always_inline struct cgroup *ancestor_at(struct cgroup *cgrp, u32 level)
{
	struct cgroup *found = NULL;

	bpf_core_read(&found, sizeof(found), &cgrp->ancestors[level]);
	return found;
}

/* The cgroup id of the Slurm job whose process a task of this cgroup is; 0: of none. */
static __noinline u64 slurm_job_of(struct cgroup *cgrp)
{
	u32 level = BPF_CORE_READ(cgrp, level), i;

	bpf_for(i, 1, SLURM_DEEPEST + 1) {
		if (i + SLURM_BELOW > level)
			break;
		if (name_begins(ancestor_at(cgrp, i + 2), "step_", 5) &&
		    name_begins(ancestor_at(cgrp, i + SLURM_BELOW), "user", 5) &&
		    is_slurm_scope(ancestor_at(cgrp, i)))
			return BPF_CORE_READ(ancestor_at(cgrp, i + 1), kn, id);
	}
	return 0;
}

#endif /* SLURM_BPF_H */
