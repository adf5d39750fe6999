/* SPDX-License-Identifier: BSD-2-Clause */
/* mapping.c -- from a mapped file to its file system and device; mapping.h says how */
#include "memory/mapping.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <rdma/fi_errno.h>

#include "memory/mount.h"

#define DECLARE "; FI_PMEMVERBS_DOMAIN can declare what survives a power failure there"
#define EMULATE "; FI_PMEMVERBS_DOMAIN can declare emulated persistent memory"

/*
 * NFS counts as a disk: msync sends COMMIT, and a server must not answer that before
 * the data is on stable storage (RFC 1813, RFC 8881).  With CIFS, 9P and FUSE the
 * server decides what a flush does.  JFS is missing, because its fsync does not
 * flush the drive's cache.
 */
static const char *const disks[] = {"ext2",     "ext3",     "ext4",   "xfs",   "btrfs",
				    "f2fs",     "bcachefs", "nilfs2", "ocfs2", "gfs2",
				    "reiserfs", "vfat",     "exfat",  NULL};
/* Those that have no block device which sysfs shows: ZFS has a pool of them, UBIFS has flash. */
static const char *const elsewhere[] = {"zfs", "ubifs", "nfs", "nfs4", NULL};
static const char *const volatiles[] = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs", "rootfs", NULL};

static bool is_one_of(const char *name, const char *const names[])
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* detect, is_durable -- for a file below other devices; the definitions are at the end */
static int detect(const struct pmv_mapped *file, unsigned int depth, struct pmv_mem *mem);
static bool is_durable(const char *path, const struct pmv_node *node, unsigned int depth,
		       int *numa_node);

/* What is known about a file before its devices are examined. */
struct place {
	const struct pmv_mapped *file;
	char name[84];        /* for logs */
	struct pmv_node node; /* what the path leads to ... */
	bool here;            /* ... if that is this file */
	struct pmv_mount fs;  /* the file's */
	bool whole;           /* mountinfo was read without an error */
	struct pmv_mem *mem;  /* what is promised there */
};

/*
 * leads_here -- does the path lead to the mapped file?  stat returns other device
 * numbers than smaps on btrfs, and on overlayfs also other inode numbers.  Older
 * kernels (6.1, not 6.12) show a mapped file of overlayfs with the numbers of the
 * layer below.
 */
static bool leads_here(const struct pmv_mapped *file, const struct pmv_node *node,
		       const struct pmv_mount *mount)
{
	bool same_fs = node->dev == file->dev || (*mount->type && mount->dev == file->dev);
	bool same_ino = node->ino == file->ino;

	if (!strcmp(mount->type, "overlay"))
		return same_fs || same_ino;
	return same_fs && same_ino;
}

static void find_place(const struct pmv_mapped *file, struct pmv_mem *mem, struct place *place)
{
	const size_t len = strlen(file->path), most = sizeof(place->name) - strlen("...") - 1;
	struct pmv_mount mount;
	bool found;

	*place = (struct place){.file = file, .mem = mem};
	snprintf(place->name, sizeof(place->name), "%s%s", len > most ? "..." : "",
		 len > most ? file->path + len - most
		 : len      ? file->path
			    : "a file");

	found = *file->path == '/' && !pmv_platform.stat(file->path, &place->node);
	place->whole = !pmv_mount_find(pmv_platform.mountinfo, file->dev,
				       found ? place->node.mount : 0, &place->fs, &mount);
	place->here = found && leads_here(file, &place->node, &mount);
	if (!*place->fs.type && place->here) {
		place->fs = mount;
		return;
	}
	pmv_mount_clear(&mount);
}

int pmv_mem_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
{
	va_list args;

	mem->persist = PMV_NONE;
	va_start(args, fmt);
	vsnprintf(mem->what, sizeof(mem->what), fmt, args);
	va_end(args);
	return -err;
}

/* REFUSE -- say why nothing is promised there, behind its name */
#define REFUSE(place, fmt, ...)                                                                    \
	pmv_mem_refuse((place)->mem, FI_EOPNOTSUPP, "%s " fmt, (place)->name, ##__VA_ARGS__)

/* promise -- of memory that is mapped as it is: what its medium keeps */
static int promise(const struct place *place, const struct pmv_medium *medium)
{
	struct pmv_mem *mem = place->mem;
	const char *kind = mem->backing == PMV_DEVDAX ? "device DAX" : "MAP_SYNC file";

	if (medium->persist < PMV_DMP)
		return REFUSE(place, "(%s) lies on %s" DECLARE, kind, medium->what);
	if (medium->persist == PMV_DMP && !pmv_platform.writes_back())
		return REFUSE(place,
			      "(%s): this processor has no instruction that writes its caches back "
			      "to persistent memory",
			      medium->what);
	mem->persist = medium->persist;
	snprintf(mem->what, sizeof(mem->what), "%s %s, %s", kind, place->name, medium->what);
	return 0;
}

static int detect_dax(const struct place *place)
{
	struct pmv_medium medium;

	if (!pmv_platform_dax(place->node.rdev, &medium))
		return REFUSE(place, "is a device, and not device DAX" DECLARE);
	place->mem->backing = PMV_DEVDAX;
	place->mem->numa_node = medium.numa_node;
	return promise(place, &medium);
}

/* detect_sync -- with MAP_SYNC data is durable without msync, as on device DAX */
static int detect_sync(const struct place *place, const struct pmv_medium *medium)
{
	if (*place->fs.realtime)
		return REFUSE(place, "(MAP_SYNC) may lie on XFS's real-time device" DECLARE);
	return promise(place, medium);
}

/* loses -- what does not keep what msync writes; or NULL */
static const char *loses(const struct pmv_medium *medium)
{
	if (medium->known && medium->persist == PMV_NONE)
		return medium->what;
	return *medium->unsynced ? medium->unsynced : NULL;
}

/* detect_page -- a file that msync makes durable, with or without the page cache */
static int detect_page(const struct place *place, const char *fs, const struct pmv_medium *medium)
{
	bool dax = medium->known && medium->persist >= PMV_DMP;
	const char *loser = loses(medium);
	struct pmv_mem *mem = place->mem;

	mem->backing = PMV_FILE;
	if (loser)
		return REFUSE(place, "lies on %s" DECLARE, loser);
	mem->persist = PMV_PAGE;
	snprintf(mem->what, sizeof(mem->what), "%s%s%s, %s%sdurable by msync%s", place->name,
		 *fs ? " on " : "", fs, medium->what, *medium->what ? ", " : "",
		 dax ? "; with DAX (mount -o dax, mmap with MAP_SYNC) it would be faster" : "");
	return 0;
}

/* find_block -- a block device's number; a container has no node of it, but sysfs has its name */
static bool find_block(const char *path, dev_t *dev)
{
	struct pmv_node node;

	if (*path != '/')
		return false;
	if (pmv_platform.stat(path, &node))
		return pmv_platform_named(path, dev);
	if (S_ISBLK(node.mode))
		*dev = node.rdev;
	return S_ISBLK(node.mode);
}

/* find_medium -- of the file system's disk; the number of btrfs and others is not the disk's */
static bool find_medium(const struct place *place, unsigned int depth, struct pmv_medium *medium)
{
	dev_t dev = place->file->dev;

	if (!major(dev))
		find_block(place->fs.source, &dev);
	return strcmp(place->fs.type, "btrfs") ? pmv_platform_block(dev, depth, is_durable, medium)
					       : pmv_platform_btrfs(dev, depth, is_durable, medium);
}

/* check_others -- XFS's other devices have to keep what they get, as well */
static int check_others(const struct place *place, unsigned int depth)
{
	const char *const others[] = {place->fs.realtime, place->fs.log};
	struct pmv_medium medium;
	const char *loser;
	dev_t dev;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *path = others[i];

		if (!*path)
			continue;
		if (!find_block(path, &dev) || !pmv_platform_block(dev, depth, is_durable, &medium))
			return REFUSE(place,
				      "lies on %.80s, too, which can't be found in sysfs" DECLARE,
				      path);
		loser = loses(&medium);
		if (loser)
			return REFUSE(place, "lies on %s, too" DECLARE, loser);
	}
	return 0;
}

static int detect_disk(const struct place *place, unsigned int depth)
{
	const char *fs = *place->fs.type ? place->fs.type : "a file system";
	struct pmv_medium medium;
	bool shown = find_medium(place, depth, &medium);
	int ret;

	place->mem->numa_node = medium.numa_node;
	place->mem->backing = place->file->sync ? PMV_FSDAX : PMV_FILE;
	/* A file that exists may have such a name, too. */
	if (place->mem->unnamed && !place->here)
		return REFUSE(place, PMV_MEM_UNLINKED);
	if (place->fs.no_barrier)
		return REFUSE(place,
			      "is on %s mounted with %s, so what is synced may be left in a "
			      "cache; mount it without that option" DECLARE,
			      fs, place->fs.no_barrier);
	if (!shown && (place->file->sync || !is_one_of(fs, elsewhere)))
		return REFUSE(place, "lies on a device that can't be found in sysfs" DECLARE);
	ret = check_others(place, depth);
	if (ret)
		return ret;
	return place->file->sync ? detect_sync(place, &medium) : detect_page(place, fs, &medium);
}

static int detect_block(const struct place *place, unsigned int depth)
{
	struct pmv_medium medium;

	if (!pmv_platform_block(place->node.rdev, depth, is_durable, &medium))
		return REFUSE(place, "is a block device that sysfs does not show" DECLARE);
	place->mem->numa_node = medium.numa_node;
	return detect_page(place, "", &medium);
}

/* detect_upper -- of overlayfs: as if the file lay in its upper directory, where writes go */
static int detect_upper(const struct place *place, const struct pmv_node *node, unsigned int depth)
{
	const struct pmv_mapped upper = {node->dev, node->ino, .shared = true,
					 .path = place->fs.upper};
	struct pmv_mem below, *mem = place->mem;
	int ret;

	if (depth >= PMV_PLATFORM_DEPTH)
		return REFUSE(place,
			      "is on overlayfs, whose upper directory can't be followed" DECLARE);
	ret = detect(&upper, depth + 1, &below);
	mem->backing = below.backing;
	mem->numa_node = below.numa_node;
	if (ret)
		return REFUSE(place, "is on overlayfs, and its upper directory %s", below.what);
	mem->persist = below.persist;
	snprintf(mem->what, sizeof(mem->what), "%s on overlayfs above %.400s", place->name,
		 below.what);
	return 0;
}

/*
 * detect_overlay -- a file that is written lies in the upper directory, on any file system.  In a
 * container this directory can't be seen.  Then at least it is no file in memory: those have no
 * extents.
 */
static int detect_overlay(const struct place *place, unsigned int depth)
{
	struct pmv_medium medium;
	struct pmv_node upper;

	if (place->fs.ignores_msync)
		return REFUSE(place, "is on overlayfs with the option volatile, which ignores "
				     "msync" EMULATE);
	if (!place->fs.layered)
		return REFUSE(place, "is on overlayfs without an upper directory, so nobody can "
				     "write it");
	if (!place->here || !pmv_platform.has_extents(place->file->path))
		return REFUSE(place,
			      "is on overlayfs, and it is not known to be on a disk" DECLARE);
	/* What lies on the same overlayfs is another directory, of the same name. */
	if (place->fs.upper && pmv_mount_find_upper(place->fs.upper, &upper) &&
	    upper.dev != place->fs.dev)
		return detect_upper(place, &upper, depth);
	/* Older kernels show the device of the layer below. */
	if (!pmv_platform_block(place->file->dev, depth, is_durable, &medium))
		medium = (struct pmv_medium){.numa_node = -1,
					     .what = "on a disk that can't be seen here"};
	place->mem->numa_node = medium.numa_node;
	return detect_page(place, "overlayfs", &medium);
}

/* detect_hidden -- a file on a file system that is not mounted in this mount namespace */
static int detect_hidden(const struct place *place, unsigned int depth)
{
	static const char *const anon[] = {"/dev/zero (deleted)", "/SYSV", "/anon_hugepage",
					   "[anon_shmem"};
	const char *path = place->file->path;
	struct pmv_medium medium;

	/* The file is on a block device, whatever its file system is. */
	if (pmv_platform_block(place->file->dev, depth, is_durable, &medium))
		return detect_disk(place, depth);

	for (size_t i = 0; i < sizeof(anon) / sizeof(anon[0]); i++) {
		if (strncmp(path, anon[i], strlen(anon[i])))
			continue;
		place->mem->backing = PMV_ANON;
		return pmv_mem_refuse(place->mem, FI_EINVAL,
				      "%s is shared anonymous memory" EMULATE, place->name);
	}
	if (!strncmp(path, "/memfd:", strlen("/memfd:"))) {
		place->mem->backing = PMV_VOLATILE_FS;
		return REFUSE(place, "is volatile" EMULATE);
	}
	return REFUSE(place, "is on a file system that is not mounted here" DECLARE);
}

/* detect_place -- by what the path leads to, and by the file system */
static int detect_place(const struct place *place, unsigned int depth)
{
	const char *fs = place->fs.type;

	if (place->here && S_ISCHR(place->node.mode))
		return detect_dax(place);
	if (place->here && S_ISBLK(place->node.mode))
		return detect_block(place, depth);
	if (!*fs && !place->whole)
		return pmv_mem_refuse(place->mem, FI_EIO,
				      "the file system of %s can't be found, because %s can't be "
				      "read or understood",
				      place->name, pmv_platform.mountinfo);
	if (!*fs)
		return detect_hidden(place, depth);
	if (is_one_of(fs, disks) || is_one_of(fs, elsewhere))
		return detect_disk(place, depth);
	if (!strcmp(fs, "overlay"))
		return detect_overlay(place, depth);
	if (is_one_of(fs, volatiles)) {
		place->mem->backing = PMV_VOLATILE_FS;
		return REFUSE(place, "is on %s, which is volatile" EMULATE, fs);
	}
	return REFUSE(
		place,
		"is on %s, and it is not known whether msync makes data durable there" DECLARE, fs);
}

/* detect -- depth: how many devices are on top of the file */
static int detect(const struct pmv_mapped *file, unsigned int depth, struct pmv_mem *mem)
{
	const char *last = strrchr(file->path, ' ');
	struct place place;
	int ret;

	*mem = (struct pmv_mem){.numa_node = -1};
	if (pmv_mapping_is_anonymous(file)) {
		mem->backing = PMV_ANON;
		return pmv_mem_refuse(mem, FI_EINVAL,
				      "anonymous memory%s%s is lost with its process; map a file "
				      "or a device, or declare emulated persistent memory with "
				      "FI_PMEMVERBS_DOMAIN",
				      *file->path ? " " : "", file->path);
	}
	if (!file->shared) {
		mem->backing = PMV_PRIVATE;
		return pmv_mem_refuse(mem, FI_EINVAL,
				      "a private mapping keeps its changes from the file; map with "
				      "MAP_SHARED");
	}

	mem->unnamed = last && !strcmp(last, " (deleted)");
	find_place(file, mem, &place);
	ret = detect_place(&place, depth);
	pmv_mount_clear(&place.fs);
	return ret;
}

static bool is_durable(const char *path, const struct pmv_node *node, unsigned int depth,
		       int *numa_node)
{
	const struct pmv_mapped file = {node->dev, node->ino, .shared = true, .path = path};
	struct pmv_mem mem;
	int ret = detect(&file, depth, &mem);

	*numa_node = mem.numa_node;
	return !ret;
}

int pmv_mapping_detect(const struct pmv_mapped *file, struct pmv_mem *mem)
{
	return detect(file, 0, mem);
}

int pmv_mapping_detect_region(const char *region, struct pmv_mem *mem)
{
	struct place place = {.mem = mem};
	struct pmv_medium medium;

	*mem = (struct pmv_mem){.numa_node = -1, .backing = PMV_DEVDAX};
	snprintf(place.name, sizeof(place.name), "%s", region);
	if (!pmv_platform_region(region, &medium))
		return REFUSE(&place, "is no region of NVDIMMs that sysfs shows");
	mem->numa_node = medium.numa_node;
	return promise(&place, &medium);
}
