# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of blocks on several targets; %D% is this directory

TESTS += test_rs test_rs_history
check_PROGRAMS += test_rs test_rs_history
test_rs_SOURCES = %D%/test_rs.c \
	fabtests/kv/kv_store.c fabtests/kv/kv_store.h \
	fabtests/rs/rs.c fabtests/rs/rs.h
test_rs_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_rs_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
test_rs_LDADD = $(CRITERION_LIBS) $(XXHASH_LIBS)

test_rs_history_SOURCES = %D%/test_rs_history.c \
	fabtests/rs/rs_history.c fabtests/rs/rs_history.h
test_rs_history_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_rs_history_LDADD = $(CRITERION_LIBS)
