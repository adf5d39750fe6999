/* SPDX-License-Identifier: BSD-2-Clause */
/* verify.c -- compares a file with one of the target's, by their checksums; verify.h */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "copy.h"

/* open_here -- a plain file; -1: that was told */
static int open_here(const struct cp_copy *copy, struct stat *st)
{
	int fd = open(copy->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st)) {
		cp_fail(copy->path, strerror(errno));
	} else if (!S_ISREG(st->st_mode)) {
		cp_fail(copy->path, "it is no plain file");
	} else {
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ask_there -- the size of the target's file; of a device a put's name says only where it begins */
static int ask_there(struct cp_copy *copy, uint64_t size_here, bool putting)
{
	struct cp_message request = {.type = CP_GET, .size = putting ? size_here : 0};
	char text[96];

	memcpy(request.text, copy->name, strlen(copy->name) + 1);
	copy->opens++;
	if (cp_ask(copy, &request, &copy->lease))
		return -1;
	copy->size = copy->lease.size;
	if (copy->size == size_here)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64 " bytes here, and %" PRIu64 " at the target",
		 size_here, copy->size);
	return cp_fail(copy->name, text);
}

static int compare(struct cp_copy *copy, int fd, XXH3_state_t *hash)
{
	struct cp_message request = {.type = CP_SUM, .size = copy->size}, answer;

	if (cp_hash_part(copy, fd, copy->size, hash, copy->digest) ||
	    cp_ask(copy, &request, &answer))
		return -1;
	return memcmp(answer.digest, copy->digest, CP_DIGEST)
		       ? cp_fail(copy->name, "the contents here and at the target differ")
		       : 0;
}

int cp_verify(struct cp_copy *copy, bool putting)
{
	XXH3_state_t *hash = XXH3_createState();
	struct stat st;
	int fd, ret = -1;

	if (!hash)
		return cp_fail(copy->path, strerror(ENOMEM));
	fd = open_here(copy, &st);
	if (fd >= 0) {
		copy->done = copy->resumed = 0;
		ret = ask_there(copy, (uint64_t) st.st_size, putting) || compare(copy, fd, hash)
			      ? -1
			      : 0;
		close(fd);
	}
	XXH3_freeState(hash);
	return ret;
}
