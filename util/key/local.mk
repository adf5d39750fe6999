# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- keys for FI_PMEMVERBS_KEYS; %D% is this directory
#
# What the files may be comes from the provider's own objects.

bin_PROGRAMS += fi_pmem_key
fi_pmem_key_SOURCES = %D%/fi_pmem_key.c util/sync_name.h
fi_pmem_key_CFLAGS = $(AM_CFLAGS) $(SODIUM_CFLAGS)
fi_pmem_key_LDADD = libprovider.la $(SODIUM_LIBS)
