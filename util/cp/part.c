/* SPDX-License-Identifier: BSD-2-Clause */
/* part.c -- the hidden file of a copy; part.h says what it is */
#include "part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool cp_part_is_hidden(const char *name)
{
	size_t len = strlen(name), suffix = strlen(CP_PART_SUFFIX);

	return *name == '.' && len > suffix && !strcmp(name + len - suffix, CP_PART_SUFFIX);
}

/* open_locked -- 0 or an errno; it is the file that has the name, and no other link leads to it */
static int open_locked(struct cp_part *part, uint64_t keep)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	struct stat opened, named;

	part->fd = openat(part->dir, part->hidden, flags, keep & CP_MODES ? 0600 : 0666);
	if (part->fd < 0)
		return errno;
	if (flock(part->fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? EBUSY : errno;
	if (fstat(part->fd, &opened) ||
	    fstatat(part->dir, part->hidden, &named, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? EBUSY : errno;
	/* Who had it may have given it its name meanwhile. */
	if (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev)
		return EBUSY;
	if (!S_ISREG(opened.st_mode) || opened.st_nlink != 1)
		return ENOTSUP;
	/* What an earlier copy has left may be open to others. */
	return keep & CP_MODES && opened.st_mode & 077 && fchmod(part->fd, 0600) ? errno : 0;
}

static int resume(struct cp_part *part, uint64_t size, uint64_t mtime)
{
	char page[CP_STATE_PAGE];
	struct stat st;

	if (fstat(part->fd, &st) || st.st_size != (off_t) (cp_state_at(size) + CP_STATE_PAGE) ||
	    pread(part->fd, page, sizeof(page), (off_t) cp_state_at(size)) != sizeof(page))
		return -1;
	return cp_state_newest(&part->state, page, size, mtime);
}

/* start -- a full disk is noticed now, not when a page of a hole is written to */
static int start(struct cp_part *part, uint64_t size, uint64_t mtime)
{
	int err;

	if (ftruncate(part->fd, 0))
		return errno;
	err = posix_fallocate(part->fd, 0, (off_t) (cp_state_at(size) + CP_STATE_PAGE));
	if (err)
		return err;
	part->state = (struct cp_state){.size = size, .mtime = mtime};
	return fsync(part->fd) || fsync(part->dir) ? errno : 0;
}

/* name_part -- the names, and the locked file */
static int name_part(struct cp_part *part, int dir, const char *name, uint64_t flags)
{
	struct stat st;

	part->dir = dir;
	part->fd = -1;
	if (snprintf(part->hidden, sizeof(part->hidden), ".%s" CP_PART_SUFFIX, name) >=
	    (int) sizeof(part->hidden))
		return ENAMETOOLONG;
	snprintf(part->name, sizeof(part->name), "%s", name);
	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode))
		return ENOTSUP;
	return open_locked(part, flags);
}

int cp_part_open(struct cp_part *part, int dir, const char *name, uint64_t size, uint64_t mtime,
		 uint64_t flags)
{
	int err = name_part(part, dir, name, flags);

	if (!err && (flags & CP_RESTART || resume(part, size, mtime))) {
		err = start(part, size, mtime);
		if (err)
			cp_part_discard(part);
	}
	if (err)
		cp_part_close(part);
	return err;
}

int cp_part_create(struct cp_part *part, int dir, const char *name, uint64_t flags)
{
	int err = name_part(part, dir, name, flags);
	struct stat st;

	if (!err && (fstat(part->fd, &st) || (st.st_size && ftruncate(part->fd, 0))))
		err = errno;
	if (err)
		cp_part_close(part);
	return err;
}

int cp_part_save(struct cp_part *part, uint64_t committed, const uint8_t *digest)
{
	struct cp_state *state = &part->state, wire;
	off_t at = (off_t) cp_state_at(state->size);

	state->sequence++;
	state->committed = committed;
	memcpy(state->digest, digest, CP_DIGEST);
	cp_state_encode(&wire, state);
	at += (off_t) (state->sequence % CP_STATES * CP_STATE_PLACE);
	return pwrite(part->fd, &wire, sizeof(wire), at) == sizeof(wire) ? 0 : EIO;
}

int cp_keep_apply(const struct cp_keep *keep, int fd)
{
	int64_t ns = (int64_t) keep->mtime % 1000000000;
	int64_t early = ns < 0; /* before 1970 */
	const struct timespec times[] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t) ((int64_t) keep->mtime / 1000000000 - early),
		 .tv_nsec = (long) (ns + early * 1000000000)},
	};

	/* Never those that give a program other rights. */
	if (keep->flags & CP_MODES && fchmod(fd, (mode_t) keep->mode & 0777))
		return errno;
	return keep->flags & CP_TIMES && futimens(fd, times) ? errno : 0;
}

mode_t cp_keep_begin(uint64_t flags, uint64_t mode)
{
	return flags & CP_MODES ? ((mode_t) mode & 0777) | 0700 : 0777;
}

int cp_still_works(int dir)
{
	int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int err = fd < 0 || fsync(fd) ? errno : 0;

	if (fd >= 0)
		close(fd);
	return err == EIO || err == EROFS ? err : 0;
}

int cp_part_name(struct cp_part *part)
{
	return renameat(part->dir, part->hidden, part->dir, part->name) ? errno : 0;
}

int cp_part_finish(struct cp_part *part, const struct cp_keep *keep)
{
	int err = ftruncate(part->fd, (off_t) part->state.size) ? errno : 0;

	if (!err)
		err = cp_keep_apply(keep, part->fd);
	if (!err && fsync(part->fd))
		err = errno;
	if (!err)
		err = cp_part_name(part);
	return err ? err : (fsync(part->dir) ? errno : 0);
}

void cp_part_discard(struct cp_part *part)
{
	unlinkat(part->dir, part->hidden, 0);
}

void cp_part_close(struct cp_part *part)
{
	if (part->fd >= 0)
		close(part->fd);
	part->fd = -1;
}
