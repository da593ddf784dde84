# SPDX-License-Identifier: GPL-2.0-or-later

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the recipes
_default:
    @{{ just_executable() }} --justfile {{ justfile() }} --list --unsorted

# Install missing Debian packages, and Python packages into .venv
setup:
    @vm/setup

# Build the virtual machine image and the BPF objects
image *OPTIONS: setup
    @vm/build {{ OPTIONS }}

# Build the image's kernel with the patches of kernel-patches/, for `vm/run --kernel patched`
kernel: setup
    @vm/build --patched-kernel

# Open a shell in a virtual machine; OPTIONS are those of vm/run
[no-exit-message]
vm *OPTIONS: setup
    @vm/run --tty {{ OPTIONS }} -- bash -l

# Open a shell on node1 of a cluster of N virtual machines; OPTIONS are those of vm/cluster
[no-exit-message]
cluster N="2" *OPTIONS: setup
    @vm/cluster {{ N }} --tty {{ OPTIONS }} -- bash -l

# Measure the cost of scheduling against EEVDF and the kernel's example schedulers; a whole run is kept in results/
[no-exit-message]
bench *OPTIONS: setup
    @.venv/bin/python -m tests.bench {{ OPTIONS }}

# Measure what `ctl netmon` costs on this machine at periods of 5 to 100 ms, and the shortest that holds 5 %: 5 minutes
[no-exit-message]
bench-netmon *OPTIONS: setup
    @.venv/bin/python -m tests.bench.netmon {{ OPTIONS }}

# Run an experiment on virtual machines: `waiting`, `periods`, `waiting-jobs`, `fit`, `ccs-modules`, `ccs-share`,
# `ccs-hetero`, `monito`, `parpar`, `placement`; or compare both sides: `kernel-and-simulator`; OPTIONS are the
# experiment's
[no-exit-message]
experiment NAME *OPTIONS: setup
    @.venv/bin/python -m tests.experiments.{{ replace(NAME, "-", "_") }} {{ OPTIONS }}

# Compare EEVDF, static protection, csm, ccs and fit: two MPI jobs and a local task in too little memory
[no-exit-message]
demo *OPTIONS: setup
    @.venv/bin/python -m ctl.demo {{ OPTIONS }}

# Simulate: a tour that takes a minute and ends in a plot; `ctl sim --help` has the rest
[no-exit-message]
sim: setup
    @.venv/bin/python -m ctl.cli.sim_tour

# Every behaviour once: lint, unit tests, in-guest tests, 8,000 decisions replayed, nodes and brokers, a cluster of two
[no-exit-message]
test: bpf
    @tests/all quick

# All tests, longer: also 100,000 decisions, virtual machines and clusters of them, a load, a short experiment
[no-exit-message]
test-all: bpf
    @tests/all full

# Unit tests; OPTIONS are pytest's
[no-exit-message]
test-unit *OPTIONS: setup
    @.venv/bin/python -m pytest -q {{ OPTIONS }}

# Test virtual machines and their clusters: boot, output and end; OPTIONS are pytest's
[no-exit-message]
test-vms *OPTIONS: bpf
    @.venv/bin/python -m pytest -q tests/vm {{ OPTIONS }}

# Cooperating nodes against real brokers on this host; OPTIONS are pytest's
[no-exit-message]
test-cluster *OPTIONS: setup
    @tests/cluster/setup
    @.venv/bin/python -m pytest -q tests/cluster {{ OPTIONS }}

# Load a broker with a thousand nodes, ten thousand jobs and a thousand events a second; count lost events and measure
# their delay
[no-exit-message]
test-load *OPTIONS: setup
    @tests/cluster/setup
    @.venv/bin/python -m tests.cluster.load {{ OPTIONS }}

# Look at the page of `ctl report` in a headless Chromium, which is installed from Debian; without one, `just test` says
# that nobody has looked
test-browser: setup
    @tests/browser >/dev/null
    @COSCHED_BROWSER=1 .venv/bin/python -m pytest -q tests/unit/monitor/test_report_browser.py

# Style and types
[no-exit-message]
lint: setup
    @.venv/bin/ruff check --quiet .
    @.venv/bin/mypy --no-error-summary
    @echo "lint: ruff and mypy have nothing to say"

# Compile the BPF objects against the image's kernel, with warnings as errors
[no-exit-message]
bpf: setup
    @vm/build >/dev/null

# Run the in-guest tests: all, those named, or (--but) all others. TEST is a file of tests/kselftest without .py.
# Environment: VM_OPTIONS of vm/run; with '--env COSCHED_QUICK=1' each behaviour is tested once, as by `just test`
[no-exit-message]
kselftest *TEST: setup
    @vm/run ${VM_OPTIONS:-} --cpus 2 --memory 1024 --swap 512 --timeout 4800 -- /src/tests/kselftest/run {{ TEST }} </dev/null

# Record decisions of every rule under stress on machines of CPUS, SECONDS each, and replay them through the papers in Python
[no-exit-message]
replay SECONDS="4" AT_LEAST="1" *CPUS="1 2 4": setup
    @tests/record {{ SECONDS }} {{ AT_LEAST }} {{ CPUS }}

# Write docs/policies.md from the tables of policies and knobs
policies: setup
    @.venv/bin/python docs/policies.py

# Make the tables of figures in README.md and docs/ from results/; --check says what differs
tables *OPTIONS: setup
    @.venv/bin/python -m docs.tables {{ OPTIONS }}

# Write man pages, completions and an example of cosched.conf into DIRECTORY: `man --manpath build/man ctl-load`
man DIRECTORY="build/man": setup
    @.venv/bin/python docs/man.py {{ DIRECTORY }}

# Fill in the files in which each reading of docs/readings.md acts
readings: setup
    @.venv/bin/python docs/readings.py

# Build a wheel of the simulator and the client into build/dist; `pip install` it anywhere, it needs no kernel
wheel: setup
    @.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/dist .
    @ls build/dist/*.whl

# Build a Debian package into build/dist, in a root of the images' suite, where lintian finds no error; OPTIONS: vm/deb --help
deb *OPTIONS: setup
    @vm/deb {{ OPTIONS }}

# Record jobs under policy fit in a VM, and draw what people see of them: `ctl top` (docs/dashboard.png, docs/queue.png)
# and the page of `ctl report` (docs/report.png)
picture: setup
    @.venv/bin/pip install -qq --disable-pip-version-check cairosvg
    @mkdir -p build/picture
    @vm/run --cpus 2 --memory 640 --swap 512:2 --timeout 400 --out build/picture -- docs/record </dev/null
    @.venv/bin/python -m ctl.monitor.picture build/picture/views.json docs/dashboard
    @.venv/bin/python -m ctl.monitor.picture build/picture/views.json docs/queue --page queue --size 100x24
    @"$(tests/browser)" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,1525 \
        --screenshot=docs/report.png "file://$PWD/build/picture/report.html"

# Scrape a node of a VM with a real Prometheus, and draw docs/metrics.png: the board of docs/grafana.json on its page
picture-metrics: setup
    @. vm/apt.sh; command -v prometheus >/dev/null || apt_install prometheus
    @.venv/bin/python docs/picture_metrics.py "$(tests/browser)" \
        vm/run --cpus 2 --memory 800 --swap 512:2 --timeout 400 -- docs/record-metrics
