/* SPDX-License-Identifier: BSD-2-Clause */
/* machine.h -- machines that are made up, and what fi_pmem_info says of them */
#ifndef MACHINE_H
#define MACHINE_H

#include <rdma/fi_ext_pmemverbs.h>

#include "../info.h"
#include "base/setting.h"
#include "test/support/mem_system.h"

#define ROOT_PORT "devices/pci0000:3a/0000:3a:00.0"
#define RNIC ROOT_PORT "/0000:3b:00.0"
#define XEON_PORT 0x2030
#define MLX5 "mlx5_0"

/* What libfabric offers. */
struct offers {
	const char *rnic; /* over verbs; NULL: none */
	bool iwarp;
	bool flushes; /* it has RDMA FLUSH */
};

extern struct offers offers;
extern struct info *info;
extern json_object *model;

/* again -- forget what was found */
void again(void);
/* config -- PCI configuration space: so many bytes can be read */
void config(const char *dir, unsigned int device, size_t len, bool allocating, bool relaxed);
void rnic(bool ddio, bool relaxed, const char *node);
void soft_rnic(void);
/* look -- as fi_pmem_info does, at that path too, unless it is NULL */
void look(const char *path);

/* detect_base -- whatever the path: it is memory at BASE */
int detect_base(const char *path, struct pmv_mem *found);
void sysfs_disk(const char *name, const char *dev, const char *cache);

/* get -- by a path like "memory/0/domain"; NULL: there is none */
json_object *get(const char *path);
const char *text_at(const char *path);
/* find -- an element of a list with that part somewhere in it; NULL: there is none */
json_object *find(const char *list, const char *part);

/* screen_of -- what is shown of that model; the caller frees it */
char *screen_of(json_object *shown);
/* squeeze -- without spaces and ends of lines */
void squeeze(char *words);
/* expect_all_shown -- each text of the model, but for names of the program and hints that always
 * hold */
void expect_all_shown(const char *screen, json_object *at);

#define expect_text(path, text) cr_expect_str_eq(text_at(path), text, "%s: %s", path, text_at(path))
#define expect_in(path, part) cr_expect(strstr(text_at(path), part), "%s: %s", path, text_at(path))

#define VERBS "memory/0/ways/0/answer/"
#define TCP "memory/0/ways/1/answer/"

#endif
