/* SPDX-License-Identifier: BSD-2-Clause */
/* mem.c -- says why nothing is promised of memory */
#include "memory/mem.h"

#include <stdarg.h>
#include <stdio.h>

int pmv_mem_refuse(struct pmv_mem *mem, int err, const char *fmt, ...)
{
	va_list args;

	mem->persist = PMV_NONE;
	va_start(args, fmt);
	vsnprintf(mem->what, sizeof(mem->what), fmt, args);
	va_end(args);
	return -err;
}
