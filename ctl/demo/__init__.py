# SPDX-License-Identifier: GPL-2.0-or-later
"""`just demo`: two parallel jobs and a local task in too little memory, under the kernel's scheduler and under ours."""
