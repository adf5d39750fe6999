/* SPDX-License-Identifier: BSD-2-Clause */
/* persist.c -- the names of persistence domains */
#include "base/persist.h"

static const char *const names[] = {
	[PMV_NONE] = "none", [PMV_PAGE] = "page", [PMV_DMP] = "dmp",
	[PMV_MHP] = "mhp",   [PMV_WSP] = "wsp",
};

const char *pmv_persist_name(enum pmv_persist persist)
{
	return names[persist];
}
