/* SPDX-License-Identifier: BSD-2-Clause */
/* demo_log.h -- the log of fi_pmem_demo: what is in it, and the memory that it lies in */
#ifndef DEMO_LOG_H
#define DEMO_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_ext_pmemverbs.h>

#define RECORD_SIZE 64
#define MAX_RECORDS (LOG_SIZE / RECORD_SIZE - 1)
#define LOG_SIZE ((size_t) 2 << 20) /* devdax is mapped in units of 2 MiB */

/* The log: its tail, then the records. */
struct log {
	uint64_t tail; /* records that count */
	char padding[RECORD_SIZE - sizeof(uint64_t)];
	char record[MAX_RECORDS][RECORD_SIZE];
};

/* The memory of a log; the last two are for "direct:FILE". */
struct log_memory {
	struct log *log;
	struct fi_pmemverbs_file_ops *ops;
	struct fi_pmemverbs_file *file;
};

/*
 * log_map -- a file, which is made, or a device; NULL: memory of this process.  Does nothing for
 * "direct:FILE".  Returns 0, or -1 with errno.
 */
int log_map(struct log_memory *memory, const char *path);

/* log_open -- for "direct:FILE", once there is a domain; 0, or a negative fi_errno */
int log_open(struct log_memory *memory, struct fid_domain *domain, const char *path);

/* log_close -- when nothing of it is registered any more */
void log_close(struct log_memory *memory);

/* log_record -- what record number, the first being 0, has to be */
void log_record(char *record, uint64_t number);

/* log_check -- is each record there that the tail includes?  Says so; 0 or 1, an exit status */
int log_check(const struct log *log);

/* log_check_file -- the same of a file that nobody has open, whatever the power has left of it */
int log_check_file(const char *path);

#endif /* DEMO_LOG_H */
