# SPDX-License-Identifier: GPL-2.0-or-later
"""Views for people: the live dashboard, its picture, decisions and events in words."""
