/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptors.h -- for a test: how many descriptors this process has open */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <dirent.h>

/* count_descriptors -- to compare with: the folder's own one, "." and ".." count, too */
static inline int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

#endif /* DESCRIPTORS_H */
