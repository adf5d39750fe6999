# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what rpc-test needs: clients of all kinds, and caches that lose their contents; %D% is this directory

# A client that means ill.
noinst_PROGRAMS += rpc_hostile
rpc_hostile_SOURCES = %D%/rpc_hostile.c
rpc_hostile_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
rpc_hostile_LDADD = librpc.la

noinst_PROGRAMS += rpc_crowd
rpc_crowd_SOURCES = %D%/rpc_crowd.c util/number.h
rpc_crowd_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
rpc_crowd_LDADD = libpmemrpc.la

noinst_PROGRAMS += rpc_flow
rpc_flow_SOURCES = %D%/flow_client.c %D%/flow_server.c %D%/rpc_flow.c %D%/rpc_flow.h
rpc_flow_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
rpc_flow_CFLAGS = -pthread $(AM_CFLAGS)
rpc_flow_LDADD = libpmemrpc.la

noinst_LTLIBRARIES += libcaches.la
libcaches_la_SOURCES = %D%/caches.c
libcaches_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
libcaches_la_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS)
libcaches_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
noinst_PROGRAMS += lose_caches
lose_caches_SOURCES = %D%/lose_caches.c
lose_caches_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
lose_caches_LDADD = librpc.la

noinst_LTLIBRARIES += libother_version.la
libother_version_la_SOURCES = %D%/other_version.c
libother_version_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)

EXTRA_DIST += \
	%D%/cases/accidents.sh \
	%D%/cases/calls.sh \
	%D%/cases/flow.sh \
	%D%/cases/variants.sh \
	%D%/rpc-test
