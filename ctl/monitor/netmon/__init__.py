# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon`, after Netmon of Monito (Monito §4): the queues on the way of a message, each period."""
