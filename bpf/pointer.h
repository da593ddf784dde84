/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of a pointer's events is a user's: pure integer C, compiled for the sensor
 * of input and, through cffi (ctl/native.py), for the tests.
 *
 * A mouse on a desk that shakes tells of steps to and fro, so what counts is how
 * far it has come within a second. A stick that drifts, and a laptop's sensor of
 * motion, tell of positions all day: positions count of devices with buttons
 * that are neither a joystick's nor a gamepad's.
 */
#ifndef POINTER_H
#define POINTER_H

#ifndef IRQ_INLINE
#define IRQ_INLINE static inline __attribute__((always_inline))
#endif

#define MOVE_LEAST	12		/* steps of a mouse: a third of a millimetre at 1000 dpi */
#define MOVE_NS		1000000000ULL	/* within so much time */
#define REL_Y_		1		/* linux/input-event-codes.h: codes above are wheels */
#define JOYSTICK_BITS	0xffffffff00000000ULL	/* BTN_JOYSTICK to BTN_THUMBR of the word from BTN_MISC on */

/*
 * Whether a relative motion is a user's. @since, @x, @y: the state, of one pointer or of
 * all: when this stretch began, and how far it has come.
 */
IRQ_INLINE int pointer_moved(unsigned long long now, unsigned int code, int value, unsigned long long *since,
			     int *x, int *y)
{
	if (code > REL_Y_)
		return 1;
	if (now - *since > MOVE_NS) {
		*since = now;
		*x = *y = 0;
	}
	if (code == REL_Y_)
		*y += value;
	else
		*x += value;
	return (*x < 0 ? -*x : *x) + (*y < 0 ? -*y : *y) >= MOVE_LEAST;
}

/* Whether positions of a device count, by its bits of buttons from BTN_MISC and from BTN_DIGI on. */
IRQ_INLINE int position_counts(unsigned long long buttons, unsigned long long digital)
{
	return (buttons || digital) && !(buttons & JOYSTICK_BITS);
}

#endif /* POINTER_H */
