/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table.h -- copies of RxM's tables of functions, in which some functions are replaced
 *
 * The copy is a member of a structure for the object, where the functions find the rest
 * of that structure.
 */
#ifndef PMV_TABLE_H
#define PMV_TABLE_H

#include <stddef.h>
#include <string.h>

/* Room for functions that a later libfabric appends to the table. */
#define LATER_FUNCTIONS 16

#define TABLE(type)                                                                                \
	union {                                                                                    \
		struct type fn;                                                                    \
		char room[sizeof(struct type) + LATER_FUNCTIONS * sizeof(void *)];                 \
	}

/* copy_table -- all tables begin with their size */
static inline void copy_table(void *to, size_t room, const void *from)
{
	size_t size;

	memcpy(&size, from, sizeof(size));
	if (size > room)
		size = room;
	memcpy(to, from, size);
	memcpy(to, &size, sizeof(size));
}

/* REPLACE_TABLE -- let `at` point to a copy, and `rxm` to what it pointed to */
#define REPLACE_TABLE(at, rxm, table)                                                              \
	do {                                                                                       \
		(rxm) = (at);                                                                      \
		copy_table(&(table), sizeof(table), at);                                           \
		(at) = &(table).fn;                                                                \
	} while (0)

#endif /* PMV_TABLE_H */
