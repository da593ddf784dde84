// SPDX-License-Identifier: GPL-2.0-only
/* The sensor of user input: keyboard, mouse, terminals. */

#define EV_KEY_		1
#define EV_REL_		2
#define EV_ABS_		3
#define BTN_FIRST	0x100	/* codes of mouse buttons, touch and pads */
#define BTN_LAST	0x160

/* input_event_dispose(dev, disposition, type, code, value): events the device really has. */
int on_input(struct pt_regs *ctx)
{
	u32 key = 0, type = PT_REGS_PARM3(ctx), code = PT_REGS_PARM4(ctx);
	struct input_obs *in = input.lookup(&key);

	if (!in)
		return 0;
	if (type == EV_KEY_ && (code < BTN_FIRST || code >= BTN_LAST)) {
		in->key_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&in->keys, 1);
	} else if (type == EV_KEY_ || type == EV_REL_ || type == EV_ABS_) {
		in->rel_ns = bpf_ktime_get_ns();
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

	if (!in || (int)PT_REGS_PARM4(ctx) <= 0)
		return 0;
	if (FIELD(u32, driver, F_DRIVER_TYPE) == TTY_PTY && FIELD(u32, driver, F_DRIVER_SUBTYPE) == PTY_MASTER)
		return 0;
	in->tty_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&in->ttys, 1);
	return 0;
}
