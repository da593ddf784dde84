// SPDX-License-Identifier: GPL-2.0-only
/* The sensor of user input: keyboard, mouse, terminals. */
#include "pointer.h"

#define EV_KEY_		1
#define EV_REL_		2
#define EV_ABS_		3
#define BTN_FIRST	0x100	/* codes of mouse buttons, touch and pads */
#define BTN_LAST	0x160
#define PAUSE_NS	500000000	/* input that follows within is announced no more: the map has its time */

#define BUTTONS_AT	32	/* bytes of input_dev.keybit before BTN_MISC, 0x100; behind its 64, BTN_DIGI */

struct motion {
	u64 since;
	int x, y;
};
BPF_ARRAY(motion, struct motion, 1);

/* Wakes who waits for a user to come: the time of input that came after a pause. */
BPF_RINGBUF_OUTPUT(input_signal, 1);

/* Input at the seat is announced whatever is typed on terminals, which may not count (knob local_user_tty). */
static __always_inline void announce(struct input_obs *in, u64 now, bool seat)
{
	u64 last = in->key_ns;

	if (in->rel_ns > last)
		last = in->rel_ns;
	if (!seat && in->tty_ns > last)
		last = in->tty_ns;
	if (!last || now - last > PAUSE_NS)
		input_signal.ringbuf_output(&now, sizeof(now), 0);
}

/* Whether an event of a device is a user's. */
static __always_inline bool by_a_user(void *dev, u32 type, u32 code, int value, u64 now)
{
	u32 key = 0;
	struct motion *m = motion.lookup(&key);

	switch (type) {
	case EV_KEY_:
		return true;
	case EV_REL_:
		return m && pointer_moved(now, code, value, &m->since, &m->x, &m->y);
	case EV_ABS_:
		dev += F_DEV_KEYS + BUTTONS_AT;
		return position_counts(FIELD(u64, dev, 0), FIELD(u64, dev, 8));
	}
	return false;
}

/* input_event_dispose(dev, disposition, type, code, value): events the device really has. */
int on_input(struct pt_regs *ctx)
{
	u32 key = 0, type = PT_REGS_PARM3(ctx), code = PT_REGS_PARM4(ctx);
	void *dev = (void *)PT_REGS_PARM1(ctx);
	struct input_obs *in = input.lookup(&key);
	u64 now = bpf_ktime_get_ns();

	if (!in || !by_a_user(dev, type, code, (int)PT_REGS_PARM5(ctx), now))
		return 0;
	announce(in, now, true);
	if (type == EV_KEY_ && (code < BTN_FIRST || code >= BTN_LAST)) {
		in->key_ns = now;
		__sync_fetch_and_add(&in->keys, 1);
	} else {
		in->rel_ns = now;
		__sync_fetch_and_add(&in->rels, 1);
	}
	return 0;
}

/* n_tty_receive_buf_common(tty, …): what the user typed; on a pty's master it is program output. */
int on_tty_input(struct pt_regs *ctx)
{
	u32 key = 0;
	struct input_obs *in = input.lookup(&key);
	void *driver = FIELD(void *, PT_REGS_PARM1(ctx), F_TTY_DRIVER);
	u64 now;

	if (!in || (int)PT_REGS_PARM4(ctx) <= 0)
		return 0;
	if (FIELD(u32, driver, F_DRIVER_TYPE) == TTY_PTY && FIELD(u32, driver, F_DRIVER_SUBTYPE) == PTY_MASTER)
		return 0;
	now = bpf_ktime_get_ns();
	announce(in, now, false);
	in->tty_ns = now;
	__sync_fetch_and_add(&in->ttys, 1);
	return 0;
}
