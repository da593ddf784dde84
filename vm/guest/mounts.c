// SPDX-License-Identifier: GPL-2.0-or-later
/* From the initrd to a root file system with everything mounted that programs expect. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

/* The host gives the disks in this order; the third is there when the kernel is not the image's own. */
enum disk { ROOT_DISK, HOST_DISK, MODULES_DISK };
#define WAIT_DISK_MS 20000

/* Load the initrd's modules in the order of their names. */
static void load_modules(void)
{
	struct dirent **names;
	int count = scandir("/modules", &names, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[300];
		int fd;

		if (names[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
			fail("cannot load the kernel module %s: %s", names[i]->d_name, strerror(errno));
		close(fd);
	}
}

static void must_mount(const char *what, const char *where, const char *type, unsigned long flags, const char *options)
{
	if (mount(what, where, type, flags, options) != 0)
		fail("cannot mount %s on %s: %s", what, where, strerror(errno));
}

/* Disks are block devices, or memory where I/O must not depend on how busy the host is; see qemu.py. */
static const char *disk_path(enum disk disk)
{
	static char path[32];
	const char *kind = getenv("COSCHED_DISKS");

	if (kind && strcmp(kind, "pmem") == 0)
		snprintf(path, sizeof(path), "/dev/pmem%d", disk);
	else
		snprintf(path, sizeof(path), "/dev/vd%c", 'a' + disk);
	return path;
}

static void mount_disk(enum disk disk, const char *where)
{
	const char *path = disk_path(disk);

	for (int waited = 0; access(path, F_OK) != 0; waited++) {
		if (waited == WAIT_DISK_MS)
			fail("the disk %s did not appear", path);
		usleep(1000);
	}
	must_mount(path, where, "ext4", MS_NOATIME, "nobarrier"); /* nothing survives the guest */
}

/* Mount the root disk and make it "/". */
void early_root(void)
{
	mkdir("/dev", 0755);
	mkdir("/root", 0755);
	must_mount("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
	load_modules();
	mount_disk(ROOT_DISK, "/root");
	mount_disk(HOST_DISK, "/root/host");
	if (access(disk_path(MODULES_DISK), F_OK) == 0)
		mount_disk(MODULES_DISK, "/root/usr/lib/modules");
	must_mount("/dev", "/root/dev", NULL, MS_MOVE, NULL);
	if (chdir("/root") != 0)
		fail("cannot enter the root disk: %s", strerror(errno));
	must_mount(".", "/", NULL, MS_MOVE, NULL);
	if (chroot(".") != 0 || chdir("/") != 0)
		fail("cannot enter the root disk: %s", strerror(errno));
	must_mount("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
}

/* Link every entry of a directory of the host's disk into a directory of the root. */
static void link_entries(const char *from, const char *into)
{
	struct dirent *entry;
	DIR *dir = opendir(from);

	while (dir && (entry = readdir(dir))) {
		char target[300], name[300];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(target, sizeof(target), "%s/%s", from, entry->d_name);
		snprintf(name, sizeof(name), "%s/%s", into, entry->d_name);
		unlink(name);
		if (symlink(target, name) != 0)
			fail("cannot link %s: %s", name, strerror(errno));
	}
	if (dir)
		closedir(dir);
}

/* Put what the host brought in where it belongs. A bare guest (vm/bare.py) has no BPF objects, no ctl and no unit. */
void host_files(void)
{
	must_mount("/host/src", "/src", NULL, MS_BIND, NULL);
	if (access("/host/bpf", F_OK) == 0)
		must_mount("/host/bpf", "/usr/lib/cosched", NULL, MS_BIND, NULL);
	link_entries("/host/bin", "/usr/local/bin");
	link_entries("/host/systemd", "/etc/systemd/system");
	link_entries("/host/default", "/etc/default");
}

void system_mounts(void)
{
	static const struct {
		const char *type, *where, *options;
		unsigned long flags;
	} mounts[] = {
		{ "proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot", MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "bpf", "/sys/fs/bpf", "mode=0700", MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "debugfs", "/sys/kernel/debug", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "tracefs", "/sys/kernel/tracing", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "devpts", "/dev/pts", "gid=5,mode=0620,ptmxmode=0666", MS_NOSUID | MS_NOEXEC },
		{ "tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV },
		{ "tmpfs", "/tmp", "mode=1777", MS_NOSUID | MS_NODEV },
	};

	mkdir("/dev/pts", 0755);
	mkdir("/dev/shm", 01777);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++)
		must_mount(mounts[i].type, mounts[i].where, mounts[i].type, mounts[i].flags, mounts[i].options);
	if (write_file("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids") != 0)
		fail("cannot enable the cpu, memory and pids cgroup controllers: %s", strerror(errno));
	if (symlink("/proc/self/fd", "/dev/fd") || symlink("/proc/self/fd/0", "/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/dev/stdout") || symlink("/proc/self/fd/2", "/dev/stderr"))
		fail("cannot link /dev/fd: %s", strerror(errno));
	if (sethostname("cosched", 7) != 0)
		fail("cannot set the host name: %s", strerror(errno));
}

void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		fail("cannot bring the loopback interface up: %s", strerror(errno));
	close(fd);
}
