/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem.c -- a file or a device as memory that can be made durable
 *
 * libpmem2 maps it and knows how it is made durable; but where that is msync, its function
 * has no result, so msync is called here.
 */
#include "pmem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../util/sync_name.h"

static void write_memory(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	(void) memory;
	memcpy(place, data, len);
}

static int persist_memory(struct rpc_memory *memory, const void *place, size_t len)
{
	struct rpc_pmem *pmem = (struct rpc_pmem *) memory;
	uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t) place / page * page;

	if (!len)
		return 0;
	if (pmem->persist) {
		pmem->persist(place, len);
		return 0;
	}
	return msync((void *) start, (uintptr_t) place + len - start, MS_SYNC) ? -errno : 0;
}

static int make_file(struct rpc_pmem *pmem, const char *path, uint64_t len,
		     struct connection_error *error)
{
	struct stat st;
	int err;

	if (fstat(pmem->fd, &st))
		return explain_call(error, path, -errno);
	if (!S_ISREG(st.st_mode))
		return 0;
	if ((uint64_t) st.st_size >= len) {
		err = -sync_name(path, pmem->fd);
		return err ? explain_call(error, path, -err) : 0;
	}
	/* A file that is too short has content that is somebody else's, unless it is empty. */
	if (st.st_size)
		return explain(error, -EUCLEAN,
			       "%s is no store, or was made with other sizes: it has %lld bytes",
			       path, (long long) st.st_size);
	err = posix_fallocate(pmem->fd, 0, (off_t) len);
	if (!err)
		err = -sync_name(path, pmem->fd);
	if (!err)
		return 0;
	if (ftruncate(pmem->fd, 0))
		err = errno;
	return explain_call(error, path, -err);
}

static int map(struct rpc_pmem *pmem, const char *path, struct connection_error *error)
{
	struct pmem2_config *config = NULL;
	const char *why;
	int ret = pmem2_source_from_fd(&pmem->source, pmem->fd);

	if (!ret)
		ret = pmem2_config_new(&config);
	if (!ret)
		ret = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
	if (!ret)
		ret = pmem2_map_new(&pmem->map, config, pmem->source);
	pmem2_config_delete(&config);
	why = ret ? pmem2_errormsg() : "";
	if (ret)
		return explain(error, ret < -1000 ? -FI_EINVAL : ret, "%s: %s", path,
			       *why ? why : "neither a file nor a device of device DAX");
	pmem->memory = (struct rpc_memory){.base = pmem2_map_get_address(pmem->map),
					   .len = pmem2_map_get_size(pmem->map),
					   .grain = RPC_ALIGN,
					   .write = write_memory,
					   .persist = persist_memory};
	if (pmem2_map_get_store_granularity(pmem->map) != PMEM2_GRANULARITY_PAGE)
		pmem->persist = pmem2_get_persist_fn(pmem->map);
	else
		/* Each call waits for the disk, and pages that are clean cost nothing. */
		pmem->memory.grain = SIZE_MAX;
	return 0;
}

int rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
		  struct connection_error *error)
{
	/* There are devices, and no files are made. */
	bool device = !strncmp(path, "/dev/", 5) && !strchr(path + 5, '/');
	int ret = 0;

	*pmem = (struct rpc_pmem){
		.fd = open(path, O_RDWR | O_CLOEXEC | (len && !device ? O_CREAT : 0), 0600)};
	if (pmem->fd < 0 && device && errno == ENOENT)
		return explain(error, -ENOENT,
			       "%s: there is no such device, and no file is made "
			       "below /dev",
			       path);
	if (pmem->fd < 0)
		return explain_call(error, path, -errno);
	if (flock(pmem->fd, LOCK_EX | LOCK_NB))
		ret = errno == EWOULDBLOCK
			      ? explain(error, -FI_EBUSY, "another process serves %s", path)
			      : explain_call(error, path, -errno);
	if (!ret)
		ret = make_file(pmem, path, len, error);
	if (!ret)
		ret = map(pmem, path, error);
	if (ret)
		rpc_pmem_close(pmem);
	return ret;
}

void rpc_pmem_close(struct rpc_pmem *pmem)
{
	if (pmem->map)
		pmem2_map_delete(&pmem->map);
	if (pmem->source)
		pmem2_source_delete(&pmem->source);
	if (pmem->fd >= 0)
		close(pmem->fd);
	*pmem = (struct rpc_pmem){.fd = -1};
}
