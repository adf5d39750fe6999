/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.h -- attributes and links in sysfs; dir is always a whole path */
#ifndef PMV_SYSFS_H
#define PMV_SYSFS_H

#include <stdbool.h>

/* pmv_sysfs_path -- dir/name, which the caller frees; NULL: no memory (ENOMEM) */
char *pmv_sysfs_path(const char *dir, const char *name);

/* pmv_sysfs_read -- its first line; false, and empty, if it does not exist or can't be read */
bool pmv_sysfs_read(const char *dir, const char *name, char *value, int size);

/* pmv_sysfs_has -- does the name exist there? */
bool pmv_sysfs_has(const char *dir, const char *name);

/*
 * pmv_sysfs_absent -- did a call fail because there is no such file, or none that this
 * process may see?  Otherwise the file may exist: for instance, no descriptor was left.
 */
bool pmv_sysfs_absent(void);

/* pmv_sysfs_resolve -- what a link, or a path with links, leads to; the caller frees it, or NULL */
char *pmv_sysfs_resolve(const char *dir, const char *name);

/* pmv_sysfs_parent -- false: there is none */
bool pmv_sysfs_parent(char *path);

/* pmv_sysfs_node -- the NUMA node of the device, or of the nearest that it is part of; or -1 */
int pmv_sysfs_node(const char *device);

#endif /* PMV_SYSFS_H */
