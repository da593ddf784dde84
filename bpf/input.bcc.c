// SPDX-License-Identifier: GPL-2.0-only
/* The sensor of user input: keyboard, mouse, terminals. */

#define EV_KEY_		1
#define EV_REL_		2
#define EV_ABS_		3
#define BTN_FIRST	0x100	/* codes of mouse buttons, touch and pads */
#define BTN_LAST	0x160
#define PAUSE_NS	500000000	/* input that follows within is announced no more: the map has its time */

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

/* input_event_dispose(dev, disposition, type, code, value): events the device really has. */
int on_input(struct pt_regs *ctx)
{
	u32 key = 0, type = PT_REGS_PARM3(ctx), code = PT_REGS_PARM4(ctx);
	struct input_obs *in = input.lookup(&key);
	u64 now = bpf_ktime_get_ns();

	if (!in)
		return 0;
	if (type == EV_KEY_ || type == EV_REL_ || type == EV_ABS_)
		announce(in, now, true);
	if (type == EV_KEY_ && (code < BTN_FIRST || code >= BTN_LAST)) {
		in->key_ns = now;
		__sync_fetch_and_add(&in->keys, 1);
	} else if (type == EV_KEY_ || type == EV_REL_ || type == EV_ABS_) {
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
