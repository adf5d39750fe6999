/* SPDX-License-Identifier: BSD-2-Clause */
/* mem_system.h -- a fabricated system: its sysfs, mountinfo and smaps, and what stat would say */
#ifndef TEST_MEM_SYSTEM_H
#define TEST_MEM_SYSTEM_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <rdma/fi_errno.h>

#include "memory/detect.h"
#include "memory/platform.h"

#define BASE UINT64_C(0x7f0000000000)
#define MIB UINT64_C(0x100000)

/* Device numbers, as smaps writes them. */
#define DEVTMPFS "00:06"
#define TMPFS "00:1b"
#define DAX0 "fc:00"
#define DAX1 "fc:01"
#define PMEM0 "103:00"
#define PMEM1 "103:01"
#define DISK "08:01"

#define NDBUS "devices/LNXSYSTM:00/ACPI0012:00/ndbus0"
#define REGION0 NDBUS "/region0"
#define REGION1 NDBUS "/region1"
#define DM "devices/virtual/block/dm-0"

#define FLAGS "rd wr sh mr mw me ms mm"

/* Paths of its descriptions. */
extern char smaps[PATH_MAX], mountinfo[PATH_MAX], sysfs[PATH_MAX];
/* How many nodes there are; does has_extents, or writes_back, say yes? */
extern size_t num_nodes;
extern bool extents, processor;
/* The answer of detect. */
extern struct pmv_mem mem;

/* mem_system_begin, mem_system_end -- around each test */
void mem_system_begin(void);
void mem_system_end(void);

void put(const char *dir, const char *name, const char *value);
void point(const char *from, const char *to);
struct pmv_node *node(const char *path, const char *dev, ino_t ino, mode_t mode, const char *rdev);
void mount_fs(unsigned int id, const char *dev, const char *where, const char *tail);
void region(const char *dir, const char *domain, const char *numa);
void device(const char *type, const char *dev, const char *dir);
/* hide -- a directory is empty, as container runtimes make some of them; once in a test */
void hide(const char *dir);
void dax(const char *dir, const char *dev);
void pmem_disk(void);
void slave(const char *of, const char *name, const char *dir);
void vma(uint64_t at, uint64_t len, const char *perms, const char *dev, ino_t ino, const char *path,
	 const char *flags);
void file(uint64_t at, const char *dev, const char *path);
void sync_file(uint64_t at, const char *dev, const char *path);
int detect(uint64_t at, uint64_t len);
void append(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void make_parents(const char *path);
void mapper(void);
void btrfs_has(const char *uuid, const char *name, const char *dir);
size_t load(const char *path, char *buf, size_t size);
void store(const char *path, const char *buf, size_t len);

#define expect(at, len, domain, back)                                                              \
	do {                                                                                       \
		int ret_ = detect(at, len);                                                        \
		cr_assert_eq(ret_, 0, "%d: %s", ret_, mem.what);                                   \
		cr_assert_eq(mem.persist, domain, "%d: %s", mem.persist, mem.what);                \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
	} while (0)

#define expect_refused(at, len, err, back, why)                                                    \
	do {                                                                                       \
		int ret_ = detect(at, len);                                                        \
		cr_assert_eq(ret_, -(err), "%d: %s", ret_, mem.what);                              \
		cr_assert_eq(mem.backing, back, "%d: %s", mem.backing, mem.what);                  \
		cr_assert(strstr(mem.what, why), "%s", mem.what);                                  \
	} while (0)

#endif /* TEST_MEM_SYSTEM_H */
