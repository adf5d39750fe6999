/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.h -- copies of libfabric's tables of functions, in which some functions are replaced
 *
 * The copy is a member of a structure for the object, where the functions find the rest
 * of that structure.
 */
#ifndef PMV_TABLE_H
#define PMV_TABLE_H

#include <stddef.h>
#include <string.h>

/* With room for functions that a later libfabric appends to the table. */
#define PMV_TABLE(type)                                                                            \
	union {                                                                                    \
		struct type fn;                                                                    \
		char room[sizeof(struct type) + 16 * sizeof(void *)];                              \
	}

/* pmv_table_copy -- all tables begin with their size */
static inline void pmv_table_copy(void *to, size_t room, const void *from)
{
	size_t size;

	memcpy(&size, from, sizeof(size));
	if (size > room)
		size = room;
	memcpy(to, from, size);
	memcpy(to, &size, sizeof(size));
}

/* PMV_TABLE_REPLACE -- let `at` point to a copy, and `below` to what it pointed to */
#define PMV_TABLE_REPLACE(at, below, table)                                                        \
	do {                                                                                       \
		(below) = (at);                                                                    \
		pmv_table_copy(&(table), sizeof(table), at);                                       \
		(at) = &(table).fn;                                                                \
	} while (0)

#endif /* PMV_TABLE_H */
