# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- copying files: what both sides have in common, the client, the target; %D% is this directory
#
# What a file system keeps comes from the provider's own objects.

bin_PROGRAMS += fi_pmem_cp fi_pmem_target
noinst_LTLIBRARIES += libcp.la
libcp_la_SOURCES = \
	%D%/beneath.c %D%/beneath.h \
	%D%/link.c %D%/link.h \
	%D%/pack.c %D%/pack.h \
	%D%/part.c %D%/part.h \
	%D%/proto.c %D%/proto.h \
	util/number.h
libcp_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
libcp_la_LIBADD = libconnection.la
fi_pmem_cp_SOURCES = %D%/fi_pmem_cp.c \
	%D%/copy.c %D%/copy.h \
	%D%/fetch.c %D%/fetch.h \
	%D%/kept.c %D%/kept.h \
	%D%/transfer.c %D%/transfer.h \
	%D%/tree.c %D%/tree.h \
	%D%/verify.c %D%/verify.h
fi_pmem_cp_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
fi_pmem_cp_LDADD = libcp.la libprovider.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)
fi_pmem_target_SOURCES = %D%/fi_pmem_target.c \
	%D%/direct.c %D%/direct.h \
	%D%/medium.c %D%/medium.h \
	%D%/list.c %D%/list.h \
	%D%/rights.c %D%/rights.h \
	%D%/session.c %D%/session.h \
	%D%/settings.c %D%/settings.h \
	%D%/sink.c %D%/sink.h \
	%D%/store.c %D%/store.h
fi_pmem_target_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_target_LDADD = libcp.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)
