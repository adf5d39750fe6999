# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of the store on chains; %D% is this directory

TESTS += test_kv_store
check_PROGRAMS += test_kv_store
test_kv_store_SOURCES = %D%/test_kv_store.c \
	fabtests/kv/kv.c fabtests/kv/kv.h \
	fabtests/kv/kv_layout.c \
	fabtests/kv/kv_store.c fabtests/kv/kv_store.h
test_kv_store_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_kv_store_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
test_kv_store_LDADD = $(CRITERION_LIBS) $(XXHASH_LIBS)
