/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.c -- read attributes and links in sysfs */
#include "memory/sysfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool pmv_sysfs_parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	*slash = '\0';
	return *path;
}

bool pmv_sysfs_join(char path[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

bool pmv_sysfs_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM;
}

bool pmv_sysfs_read(const char *dir, const char *name, char *value, int size)
{
	char path[PATH_MAX];
	FILE *file;
	bool read;

	*value = '\0';
	file = pmv_sysfs_join(path, dir, name) ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (!fgets(value, size, file))
		*value = '\0';
	read = !ferror(file);
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return read;
}

bool pmv_sysfs_has(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return pmv_sysfs_join(path, dir, name) && !access(path, F_OK);
}

bool pmv_sysfs_resolve(const char *dir, const char *name, char target[PATH_MAX])
{
	char path[PATH_MAX];

	return pmv_sysfs_join(path, dir, name) && realpath(path, target);
}

int pmv_sysfs_node(const char *device)
{
	char dir[PATH_MAX];
	char value[16];

	snprintf(dir, sizeof(dir), "%s", device);
	do {
		if (pmv_sysfs_read(dir, "numa_node", value, sizeof(value)) && *value)
			return atoi(value);
	} while (pmv_sysfs_parent(dir));
	return -1;
}
