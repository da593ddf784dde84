# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of figures in README.md and docs/*.md, made from results/: `just tables` writes, `--check` compares.

A page has a table between two comments, which readers do not see:

    <!-- table: switch-cost -->
    <!-- end -->

table.py has what a table is and what is written below it, blocks.py finds the blocks of a page, and the other files
declare the tables of a page or two. Figures without a file of their own are lines of results/noted.jsonl.
"""
