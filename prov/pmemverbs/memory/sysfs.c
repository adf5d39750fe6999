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

char *pmv_sysfs_path(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/* drop -- free, and leave errno as it is */
static void drop(char *path)
{
	int err = errno;

	free(path);
	errno = err;
}

bool pmv_sysfs_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM;
}

bool pmv_sysfs_read(const char *dir, const char *name, char *value, int size)
{
	char *path = pmv_sysfs_path(dir, name);
	FILE *file = path ? fopen(path, "re") : NULL;
	bool read;

	drop(path);
	*value = '\0';
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
	char *path = pmv_sysfs_path(dir, name);
	bool has = path && !access(path, F_OK);

	drop(path);
	return has;
}

char *pmv_sysfs_resolve(const char *dir, const char *name)
{
	char *path = pmv_sysfs_path(dir, name);
	char *target = path ? realpath(path, NULL) : NULL;

	drop(path);
	return target;
}

int pmv_sysfs_node(const char *device)
{
	char *dir = strdup(device);
	char value[16];
	int node = -1;

	do {
		if (dir && pmv_sysfs_read(dir, "numa_node", value, sizeof(value)) && *value) {
			node = atoi(value);
			break;
		}
	} while (dir && pmv_sysfs_parent(dir));
	free(dir);
	return node;
}
