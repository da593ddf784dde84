# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by scripts that install packages of Debian on this machine. What is said begins with the name of the script.

die() { echo "${0##*/}: $*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "'$*' needs root, and sudo is not installed"
    fi
}

# apt_install PACKAGE...: status 1 if it could not
apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "$@" >/dev/null
}
