# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- benchmarks, and their references; %D% is this directory

noinst_LTLIBRARIES += libbench.la
libbench_la_SOURCES = \
	%D%/bench.c %D%/bench.h %D%/bench_impl.h \
	%D%/bench_target.c \
	%D%/stream.c %D%/stream.h

bin_PROGRAMS += fi_pmem_bw
fi_pmem_bw_SOURCES = %D%/fi_pmem_bw.c
fi_pmem_bw_CFLAGS = $(AM_CFLAGS) -pthread
fi_pmem_bw_LDADD = libbench.la libcommon.la libconnection.la $(LIBFABRIC_LIBS)

bin_PROGRAMS += fi_pmem_lat
fi_pmem_lat_SOURCES = %D%/fi_pmem_lat.c
fi_pmem_lat_CFLAGS = $(AM_CFLAGS) -pthread
fi_pmem_lat_LDADD = libbench.la libcommon.la libconnection.la $(LIBFABRIC_LIBS)

bin_PROGRAMS += fi_pmem_scale
fi_pmem_scale_SOURCES = %D%/fi_pmem_scale.c \
	%D%/scale.h %D%/scale_clients.c %D%/scale_hub.c %D%/scale_target.c
fi_pmem_scale_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)

bin_PROGRAMS += pmem_verbs_lat
pmem_verbs_lat_SOURCES = %D%/pmem_verbs_lat.c \
	%D%/verbs_flush.h \
	%D%/verbs_link.c %D%/verbs_link.h
if HAVE_RDMA_FLUSH
pmem_verbs_lat_SOURCES += %D%/verbs_flush.c
EXTRA_DIST += %D%/verbs_flush_none.c
else
pmem_verbs_lat_SOURCES += %D%/verbs_flush_none.c
EXTRA_DIST += %D%/verbs_flush.c
endif
pmem_verbs_lat_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs
pmem_verbs_lat_LDADD = libbench.la libcommon.la $(IBVERBS_LIBS) $(PMEM2_LIBS)

if HAVE_RPMA
bin_PROGRAMS += pmem_rpma_lat
pmem_rpma_lat_SOURCES = %D%/pmem_rpma_lat.c
pmem_rpma_lat_CPPFLAGS = $(AM_CPPFLAGS) $(RPMA_CFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs
pmem_rpma_lat_LDADD = libbench.la libcommon.la $(RPMA_LIBS) $(IBVERBS_LIBS) $(PMEM2_LIBS)
endif

EXTRA_DIST += %D%/many-clients %D%/under-attack

# Preloaded by fabtests/report/report, to count doorbells.
noinst_LTLIBRARIES += libcount_posts.la
libcount_posts_la_SOURCES = %D%/count_posts.c
libcount_posts_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
libcount_posts_la_LIBADD = $(IBVERBS_LIBS)
